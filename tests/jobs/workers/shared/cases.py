"""The operations that must give the same in every mode: inputs and, in NumPy, results.

Every value is exact in its dtype, whatever the order of summation. NumPy has no bfloat16 and no
float8: their inputs are float32 here, and their results the bits of what the framework has. No two
operations of one kind have equal inputs on one rank only: TensorFlow would merge them there, and
the ranks would wait for different tensors.
"""

from __future__ import annotations

import functools
import re

import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64")
ADASUM = ("float16", "float32", "float64")
REDUCED = {
    "torch": ("int32", "int64", *FLOATS),
    "tensorflow": ("uint8", "int8", "int32", "int64", *FLOATS),
}
SCATTERED = ("int32", "int64", *FLOATS)
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
# The bits of 1, 2 and 3.
FLOAT8_BITS = {"float8_e4m3fn": (0x38, 0x40, 0x44), "float8_e5m2": (0x3c, 0x40, 0x42)}
MOVED = (*INTEGERS, *FLOATS, "bool", "complex64", "complex128", *FLOAT8_BITS)

REDUCTIONS = {
    "Sum": np.add,
    "Average": np.add,
    "Min": np.minimum,
    "Max": np.maximum,
    "Product": np.multiply,
}
SCALES = {"prescale_factor": 0.5, "postscale_factor": 8.0}


def numpy_type(dtype: str) -> str:
    return "float32" if dtype == "bfloat16" or dtype in FLOAT8_BITS else dtype


def bfloat16_bits(numbers: np.ndarray) -> np.ndarray:
    """Of the bfloat16 nearest to each float32, ties to even."""
    bits = np.ascontiguousarray(numbers).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def float8_bits(dtype: str, numbers: np.ndarray) -> np.ndarray:
    return np.array((0, *FLOAT8_BITS[dtype]), np.uint8)[numbers.astype(np.int64)]


def values(dtype: str, rank: int, *shape: int) -> np.ndarray:
    """1 to 3, shifted by rank: products of 4 ranks fit into int8, thirds of 3 ranks are exact. A
    bool says which are odd; the imaginary part of a complex number is what is left to 5."""
    numbers = 1 + (np.arange(np.prod(shape)).reshape(shape) + rank) % 3
    if dtype == "bool":
        return numbers % 2 == 1
    if dtype.startswith("complex"):
        return (numbers + 1j * (5 - numbers)).astype(dtype)
    return numbers.astype(numpy_type(dtype))


def reduced(operation: str, dtype: str, size: int, *shape: int) -> np.ndarray:
    total = functools.reduce(
        REDUCTIONS[operation], (values(dtype, rank, *shape) for rank in range(size))
    )
    return (total / size).astype(numpy_type(dtype)) if operation == "Average" else total


def reductions(dtype: str) -> list[str]:
    """Horovod averages integers in the framework, each in its own way."""
    return [name for name in REDUCTIONS if name != "Average" or dtype in FLOATS]


def scatters(dtype: str) -> list[str]:
    return ["Sum", "Average"] if dtype in FLOATS else ["Sum"]


def scattered(whole: np.ndarray, rank: int, size: int) -> np.ndarray:
    return np.array_split(whole, size)[rank]


def has_adasum(controller: str, size: int) -> bool:
    return controller == "mpi" and size & (size - 1) == 0


def orthogonal(dtype: str, rank: int, size: int) -> np.ndarray:
    """Adasum adds orthogonal vectors as they are."""
    vector = values(dtype, rank, 12)
    vector[np.arange(12) % size != rank] = 0
    return vector


def rows(rank: int) -> int:
    return rank + 1


def splits(source: int, size: int) -> np.ndarray:
    return np.array([(source + target) % 3 for target in range(size)], dtype=np.int32)


def received(dtype: str, rank: int, size: int) -> np.ndarray:
    """What alltoall with `splits` brings to `rank`."""
    parts = []
    for source in range(size):
        sent = splits(source, size)
        start = sent[:rank].sum()
        parts.append(values(dtype, source, sent.sum(), 2)[start : start + sent[rank]])
    return np.concatenate(parts)


def steps_before_join(rank: int) -> int:
    return 2 * rank + 1


def joined(size: int) -> list[np.ndarray]:
    """The sum of every step of the last rank; ranks that have joined add zeros."""
    return [
        sum(values("float32", r, 4) * (steps_before_join(r) > step) for r in range(size))
        for step in range(steps_before_join(size - 1))
    ]


def sparse(size: int) -> np.ndarray:
    dense = np.zeros((size + 1, 2), np.float32)
    for rank in range(size):
        dense[rank : rank + 2] += values("float32", rank, 2, 2)
    return dense


def process_sets(size: int) -> dict[str, list[int]]:
    """Disjoint and overlapping ones, none of which is the global one."""
    sets = {"even": list(range(0, size, 2)), "odd": list(range(1, size, 2))}
    sets.update({f"pair{rank}": [rank, rank + 1] for rank in range(size - 1) if size > 2})
    return {name: ranks for name, ranks in sets.items() if 0 < len(ranks) < size}


def expected(framework: str, controller: str, rank: int, size: int) -> dict[str, np.ndarray]:
    """Results of one rank, by "operation/detail"."""
    last = size - 1
    results = {}
    for dtype in REDUCED[framework]:
        for op in reductions(dtype):
            results[f"allreduce/{op}.{dtype}"] = reduced(op, dtype, size, 5, 3)
            for i in range(3):
                results[f"grouped_allreduce/{op}.{dtype}.{i}"] = reduced(op, dtype, size, 4, i + 1)
    for dtype in FLOATS:
        results[f"scaled_allreduce/{dtype}"] = 4 * reduced("Sum", dtype, size, 7)
    for dtype in ADASUM if has_adasum(controller, size) else ():
        results[f"adasum/{dtype}"] = sum(orthogonal(dtype, r, size) for r in range(size))
    for dtype in SCATTERED:
        for op in scatters(dtype):
            whole = reduced(op, dtype, size, 2 * size + 1, 3)
            results[f"reducescatter/{op}.{dtype}"] = scattered(whole, rank, size)
            for i in range(2):
                whole = reduced(op, dtype, size, 2 * size, i + 1)
                name = f"grouped_reducescatter/{op}.{dtype}.{i}"
                results[name] = scattered(whole, rank, size)
    for dtype in MOVED:
        results[f"allgather/{dtype}"] = np.concatenate(
            [values(dtype, r, 2, 3) for r in range(size)]
        )
        results[f"uneven_allgather/{dtype}"] = np.concatenate(
            [values(dtype, r, rows(r), 4) for r in range(size)]
        )
        for i in range(2):
            results[f"grouped_allgather/{dtype}.{i}"] = np.concatenate(
                [values(dtype, r, 2, i + 1) for r in range(size)]
            )
        results[f"broadcast/{dtype}"] = values(dtype, last, 4, 2)
        results[f"alltoall/{dtype}.0"] = np.concatenate(
            [np.split(values(dtype, r, 2 * size, 3), size)[rank] for r in range(size)]
        )
        results[f"alltoall/{dtype}.1"] = np.full(size, 2, np.int32)
        results[f"split_alltoall/{dtype}.0"] = received(dtype, rank, size)
        results[f"split_alltoall/{dtype}.1"] = np.array(
            [splits(r, size)[rank] for r in range(size)], np.int32
        )
    for name, ranks in process_sets(size).items():
        if rank in ranks:
            results[f"process_sets/{name}.allreduce"] = sum(values("int32", r, 5) for r in ranks)
            results[f"process_sets/{name}.allgather"] = np.concatenate(
                [values("int32", r, rows(r), 2) for r in ranks]
            )
            results[f"process_sets/{name}.broadcast"] = values("int32", ranks[-1], 3)
    if framework == "torch":  # TensorFlow has no barrier; its join is part of its training
        for step, total in enumerate(joined(size)[: steps_before_join(rank)]):
            results[f"join/{step}"] = total
        results["join/last"] = np.array(last)
        results["barrier/late"] = np.array(True)
    results["sparse/dense"] = sparse(size)
    return {name: _bits(name, array) for name, array in results.items()}


def _bits(name: str, array: np.ndarray) -> np.ndarray:
    """Of a result of a type that NumPy does not have; others as they are."""
    dtype = re.search(r"(bfloat16|float8_\w+)(\.\d)?$", name)
    if dtype is None or array.dtype != np.float32:
        return array
    return bfloat16_bits(array) if dtype[1] == "bfloat16" else float8_bits(dtype[1], array)


def operations(framework: str, controller: str, size: int) -> list[str]:
    return sorted({name.split("/")[0] for name in expected(framework, controller, 0, size)})


# Not exact: all ranks get the same bits, and with two ranks, whose sum has but one order, the
# same in every mode.
RANDOM = {dtype: f"random_allreduce/{dtype}" for dtype in ("float32", "bfloat16")}


def random(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).standard_normal(3000).astype(np.float32)
