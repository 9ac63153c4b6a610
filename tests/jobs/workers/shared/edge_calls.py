"""Calls at the edge: tensors without rows or elements, objects; and beyond it: what all ranks must
refuse together.

What a worker has made of them with report_of() is right if check() of test_operations.py says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

MODES = {"off": 1, "topo": 7}  # how often the same call: so that topo plans it
INT32_MAX = 2**31 - 1
# Moved, and never reduced.
UNREDUCED = ("bool", "int16", "uint16", "uint32", "uint64", "complex64", "complex128",
             "float8_e4m3fn", "float8_e5m2")


class Sent(NamedTuple):
    """By one rank. `splits`: of an alltoall, a list of Python; `splits_dtype`: a tensor of that."""

    dtype: str = "float32"
    shape: tuple[int, ...] = (4,)
    splits: Any = None
    splits_dtype: str = ""


class Refused(NamedTuple):
    """The last rank sends `last`, the others send `sent`. All get an error with `error`, the name
    of the tensor, what each has sent, and the last one's splits if it is at fault."""

    operation: str
    error: str
    sent: Sent
    last: Sent
    unfit: str = ""

    def texts(self, size: int) -> list[str]:
        return [self.error, self.unfit,
                *(f"{self.operation.upper().replace('GROUPED_', '')} of {sent.dtype} "
                  f"{list(sent.shape)}" for sent in ((self.sent, self.last) if size > 1
                                                     else (self.last,)))]


def alike(operation: str, error: str, sent: Sent) -> Refused:
    return Refused(operation, error, sent, sent)


def sums() -> dict[str, Refused]:
    refused = {}
    for place, dtype in enumerate(UNREDUCED):
        for operation in ("allreduce", ("reducescatter", "grouped_allreduce")[place % 2]):
            refused[f"{operation}_of_{dtype}"] = alike(
                operation, f"Horovod moves {dtype} from rank to rank, and cannot reduce it: "
                           "convert it to a type that it reduces, which are uint8, int8, int32,",
                Sent(dtype))
    return refused


def splits(size: int) -> dict[str, Refused]:
    error = "An alltoall cannot split a tensor: it needs as splits one int32 for each rank"
    sent = Sent(shape=(size,), splits=[1] * size)
    refused = {}
    for name, rows, of_last, dtype, shown in (
        ("negative", 4, [*range(size - 1, 0, -1), -1], "", "int32"),
        ("long", 4, [1] * (size + 1), "", "int32"),
        ("short", 4, [1] * (size - 1) or [1, 1], "", "int32"),
        ("large", size, [1] * (size - 1) + [2], "", "int32"),
        ("overflowing", 4, [INT32_MAX] * size, "", "int32"),
        ("beyond_int32", 4, [INT32_MAX + 1] * size, "", "int64"),
        ("float", size, [1.0] * size, "", "float32"),
        ("int64", size, [1] * size, "int64", "int64"),
        ("nested", size, [[1]] * size, "int32", f"int32 of shape [{size}, 1]"),
        ("scalar", 4, 1, "int32", "int32 of shape []"),
    ):
        numbers = f" {of_last}" if dtype == "" and shown == "int32" else ""
        refused[f"splits_{name}"] = Refused("alltoall", error, sent,
                                            Sent("float32", (rows,), of_last, dtype),
                                            f"with the splits {shown}{numbers}")
    if size > 1:
        refused["splits_none"] = Refused("alltoall", error, Sent(shape=(size,)),
                                         Sent(shape=(size + 1,)), "without splits")
    return refused


def calls(size: int) -> dict[str, Refused]:
    """By name; the tensor's has it."""
    refused = {**sums(), **splits(size)}
    if size & (size - 1) == 0:
        refused["adasum_of_bfloat16"] = alike(
            "adasum", "Adasum cannot reduce bfloat16: convert it to float32, or use Sum or "
                      "Average.", Sent("bfloat16"))
    for operation in "alltoall", "allgather", "reducescatter":
        error = f"{operation.upper()} of a scalar, which has no rows: reshape it to one dimension."
        refused[f"{operation}_of_scalars"] = alike(operation, error, Sent(shape=()))
        if size > 1:
            refused[f"{operation}_of_a_scalar"] = Refused(operation, error, Sent(shape=(size,)),
                                                          Sent(shape=()))
    for operation in "grouped_allgather", "grouped_reducescatter":
        refused[f"{operation}_of_a_scalar_and_rows"] = alike(
            operation, f"{operation.upper()[len('GROUPED_'):]} of a scalar, which has no rows",
            Sent(shape=()))
    for operation, dtype, other in (
        ("allreduce", "bfloat16", "float32"), ("allreduce", "float32", "complex64"),
        ("broadcast", "complex64", "float64"), ("allgather", "bool", "uint8"),
        ("alltoall", "float8_e5m2", "float8_e4m3fn"), ("reducescatter", "uint16", "int16"),
        ("broadcast", "uint64", "complex64"),
    ):
        if size > 1:
            refused[f"{operation}_of_{dtype}_and_{other}"] = Refused(
                operation, "Mismatched data types", Sent(dtype, (size,)), Sent(other, (size,)))
    return refused


def errors_of(rank: int, size: int,
              perform: Callable[[str, Sent, str], object]) -> dict[str, list[str]]:
    """By name: the class and the text. `perform(operation, sent, name)` makes the call; of a group
    it is the first tensor, beside one that is right."""
    errors = {}
    for name, call in calls(size).items():
        try:
            perform(call.operation, call.last if rank == size - 1 else call.sent, name)
            errors[name] = ["", ""]
        except Exception as error:
            errors[name] = [type(error).__name__, str(error)]
    return errors


# Shapes by rank.
EDGES: dict[str, Callable[[int], tuple[int, ...]]] = {
    "no_rows": lambda rank: (0,),
    "no_rows_of_two": lambda rank: (0, 2),
    "rows_of_none": lambda rank: (2, 0),
    "rows_on_some": lambda rank: (rank, 3),
    "scalar": lambda rank: (),
}
BY_ROWS = ("allgather", "alltoall", "reducescatter")


def edges() -> list[tuple[str, str]]:
    """Operations with the edges that they take."""
    return [(operation, edge) for operation in ("allreduce", "broadcast", *BY_ROWS)
            for edge in EDGES
            if not (edge == "rows_on_some" and operation not in ("allgather", "alltoall"))
            and not (edge == "scalar" and operation in BY_ROWS)]


def values(edge: str, rank: int) -> np.ndarray:
    return np.full(EDGES[edge](rank), rank + 1, np.float32)


def to_last(edge: str, rank: int, size: int) -> list[int]:
    """The splits of an alltoall that sends all rows to the last rank."""
    return [0] * (size - 1) + [*EDGES[edge](rank), 0][:1]


def expected(operation: str, edge: str, rank: int, size: int) -> np.ndarray:
    of_ranks = [values(edge, other) for other in range(size)]
    if operation == "broadcast":
        return of_ranks[-1]
    if operation in ("allgather", "alltoall"):
        rows = np.concatenate(of_ranks)
        return rows if operation == "allgather" or rank == size - 1 else rows[:0]
    total = functools.reduce(np.add, of_ranks)
    return total if operation == "allreduce" else np.array_split(total, size)[rank]


def wrong_at_edges(rank: int, size: int, times: int,
                   act: Callable[[str, np.ndarray, list[int], str], np.ndarray]) -> list[str]:
    """`act(operation, own, splits, name)` makes the call; a broadcast's root is the last rank."""
    wrong = []
    for turn in range(times):
        for operation, edge in edges():
            got = act(operation, values(edge, rank), to_last(edge, rank, size),
                      f"{operation}.{edge}")
            right = expected(operation, edge, rank, size)
            if got.shape != right.shape or not np.array_equal(got, right):
                wrong.append(f"turn {turn}, {operation}, {edge}: {got.tolist()} of {got.shape}")
    return wrong


def wrong_objects(rank: int, size: int, hvd: Any) -> list[str]:
    """Without names, and of another class on each rank."""
    values = [None, "text", {"rank": 2}, (3,)][:size]
    large = bytes(range(256)) * (1 << 12)
    return [text for text, got, right in (
        ("gathered", hvd.allgather_object(values[rank]), values),
        ("of rank 0", hvd.broadcast_object({"step": 3} if rank == 0 else None), {"step": 3}),
        ("large", hvd.broadcast_object(large if rank == size - 1 else None, size - 1), large),
    ) if got != right]
