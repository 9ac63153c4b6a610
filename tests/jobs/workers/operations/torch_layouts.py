"""Every operation on tensors of every layout and type, beside PyTorch's own result; in each of the
given modes.

Ranks have tensors of the same elements, in one layout or each in its own. What is wrong is reported
as text.
"""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import cases
import horovod.torch as hvd
import torch
from common import RANK, report, running, start_mpi
from horovod.torch.mpi_ops import _basics

SIZE = 2
ROOT = 1
FLAT, IMAGES, VOLUMES = (4, 3), (4, 3, 2, 5), (4, 2, 3, 2, 2)


class Layout(NamedTuple):
    shape: tuple[int, ...]
    make: Callable[[torch.Tensor], torch.Tensor]  # of a contiguous tensor, the same elements


def sliced(tensor: torch.Tensor) -> torch.Tensor:
    """Every second row of every third column of a larger one."""
    memory = torch.full((2 * tensor.size(0), 3 * tensor.size(1) + 1), 7).to(tensor.dtype)
    memory[::2, 1::3] = tensor
    return memory[::2, 1::3]


def negated(tensor: torch.Tensor) -> torch.Tensor:
    """Its memory has the other sign, of which PyTorch keeps a note."""
    return torch._neg_view(-tensor)


LAYOUTS = {
    "contiguous": Layout(FLAT, lambda tensor: tensor),
    "channels_last": Layout(IMAGES, lambda tensor: tensor.contiguous(
        memory_format=torch.channels_last)),
    "channels_last_3d": Layout(VOLUMES, lambda tensor: tensor.contiguous(
        memory_format=torch.channels_last_3d)),
    "transposed": Layout(FLAT, lambda tensor: tensor.t().contiguous().t()),
    "permuted": Layout(VOLUMES, lambda tensor: tensor.permute(3, 0, 4, 2, 1).contiguous().permute(
        1, 4, 3, 0, 2)),
    "expanded": Layout(FLAT, lambda tensor: tensor[:, :1].expand(tensor.shape)),
    "sliced": Layout(FLAT, sliced),
    "view": Layout(FLAT, lambda tensor: torch.cat(
        [tensor.new_zeros(5), tensor.flatten(), tensor.new_zeros(2)])[5:-2].view(tensor.shape)),
    "negated": Layout(FLAT, negated),
    "one column": Layout((4, 1), lambda tensor: tensor.repeat(1, 3)[:, 1:2]),
    "no elements": Layout((4, 0, 3), lambda tensor: tensor.transpose(0, 2).contiguous().transpose(
        0, 2)),
    "scalar": Layout((), lambda tensor: torch.stack([tensor, tensor + 1])[0]),
}


def elements(layout: str, dtype: str, rank: int) -> torch.Tensor:
    """What a rank has, contiguous."""
    shape = LAYOUTS[layout].shape
    count = torch.Size(shape).numel()
    values = (torch.arange(count).reshape(shape) * (rank + 1) + rank).to(getattr(torch, dtype))
    return values[:, :1].expand(shape).clone() if layout == "expanded" else values


class Call(NamedTuple):
    """An operation. `result`: of the ranks' tensors, for a rank; `start` returns a handle."""

    start: Callable[[torch.Tensor, str], object]
    result: Callable[[list[torch.Tensor], int], object]
    dtypes: tuple[str, ...]
    is_in_place: bool = False
    along_rows: bool = False


def total(tensors: list[torch.Tensor], _: int = 0) -> torch.Tensor:
    return sum(tensors[1:], tensors[0])


def part(tensor: torch.Tensor, rank: int) -> torch.Tensor:
    return tensor.chunk(SIZE)[rank]


def split(tensors: list[torch.Tensor], rank: int) -> torch.Tensor:
    """The first rank gets three rows of each, the second one."""
    return torch.cat([tensor[:3] if rank == 0 else tensor[3:] for tensor in tensors])


def splits() -> torch.Tensor:
    return torch.tensor([3, 9, 1], dtype=torch.int32)[::2]


def group(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The first one is contiguous."""
    return [tensor.contiguous().clone(), tensor]


def in_group(result: Callable) -> Callable:
    return lambda tensors, rank: [result(tensors, rank)] * 2


REDUCED = cases.REDUCED["torch"]
MOVED = (*REDUCED, "uint8", "int16", "bool", "complex64")
CALLS = {
    "allreduce": Call(lambda x, n: hvd.allreduce_async(x, name=n, op=hvd.Sum), total, REDUCED),
    "grouped_allreduce": Call(lambda x, n: hvd.grouped_allreduce_async(
        group(x), name=n, op=hvd.Sum), in_group(total), REDUCED),
    "allgather": Call(lambda x, n: hvd.allgather_async(x, name=n),
                      lambda t, _: torch.cat(t), MOVED, along_rows=True),
    "grouped_allgather": Call(lambda x, n: hvd.grouped_allgather_async(group(x), name=n),
                              in_group(lambda t, _: torch.cat(t)), MOVED, along_rows=True),
    "broadcast": Call(lambda x, n: hvd.broadcast_async(x, ROOT, name=n),
                      lambda t, _: t[ROOT], MOVED),
    "alltoall": Call(lambda x, n: hvd.alltoall_async(x, name=n), lambda t, rank: torch.cat(
        [part(tensor, rank) for tensor in t]), MOVED, along_rows=True),
    "alltoall, splits": Call(lambda x, n: hvd.alltoall_async(x, splits(), name=n), split, MOVED,
                             along_rows=True),
    "reducescatter": Call(lambda x, n: hvd.reducescatter_async(x, name=n, op=hvd.Sum),
                          lambda t, rank: part(total(t), rank), REDUCED, along_rows=True),
    "grouped_reducescatter": Call(
        lambda x, n: hvd.grouped_reducescatter_async(group(x), name=n, op=hvd.Sum),
        in_group(lambda t, rank: part(total(t), rank)), REDUCED, along_rows=True),
    "allreduce_": Call(lambda x, n: hvd.allreduce_async_(x, name=n, op=hvd.Sum), total, REDUCED,
                       is_in_place=True),
    "grouped_allreduce_": Call(lambda x, n: hvd.grouped_allreduce_async_(
        group(x), name=n, op=hvd.Sum), in_group(total), REDUCED, is_in_place=True),
    "broadcast_": Call(lambda x, n: hvd.broadcast_async_(x, ROOT, name=n), lambda t, _: t[ROOT],
                       MOVED, is_in_place=True),
}
# Their results, in a backward pass.
DIFFERENTIABLE = {
    "allreduce": lambda x: hvd.allreduce(x, op=hvd.Sum),
    "grouped_allreduce": lambda x: hvd.grouped_allreduce(group(x))[1],
    "allgather": hvd.allgather,
    "grouped_allgather": lambda x: hvd.grouped_allgather(group(x))[1],
    "broadcast": lambda x: hvd.broadcast(x, ROOT),
    "alltoall": hvd.alltoall,
    "reducescatter": lambda x: hvd.reducescatter(x, op=hvd.Sum, prescale_factor=0.5,
                                                 postscale_factor=4.0),
    "grouped_reducescatter": lambda x: hvd.grouped_reducescatter(group(x), op=hvd.Sum)[1],
}


def difference(got: object, right: object) -> str:
    """Empty if they are equal."""
    if isinstance(right, list):
        pairs = zip(got, right)
    else:
        # An alltoall's second one: how much has come from each.
        pairs = [(got[0] if isinstance(got, tuple) else got, right)]
    return "; ".join(f"{mine.tolist()}, not {rights.tolist()}" for mine, rights in pairs
                     if mine.dtype != rights.dtype or not torch.equal(mine, rights))


def calls() -> Iterator[tuple[str, str, str, str]]:
    """Name, operation, layout, type. All ranks have that layout, or the last one alone; types other
    than float32 have two layouts."""
    for operation, call in CALLS.items():
        for layout, (shape, _) in LAYOUTS.items():
            for dtype in call.dtypes if layout in ("transposed", "sliced") else ("float32",):
                for ranks in ("all", "last") if dtype == "float32" else ("all",):
                    if shape or not call.along_rows:
                        yield f"{operation}, {dtype}, {layout} on {ranks}", operation, layout, dtype


def wrong_results() -> dict[str, str]:
    started = {}
    for name, operation, layout, dtype in calls():
        mine = elements(layout, dtype, RANK)
        tensor = mine if name.endswith("last") and RANK == 0 else LAYOUTS[layout].make(mine)
        memory = tensor.stride(), tensor.data_ptr()
        started[name] = operation, layout, dtype, tensor, memory, CALLS[operation].start(
            tensor, name)
    wrong = {}
    for name, (operation, layout, dtype, tensor, memory, handle) in started.items():
        call = CALLS[operation]
        got = hvd.synchronize(handle)
        right = call.result([elements(layout, dtype, rank) for rank in range(SIZE)], RANK)
        problem = difference(got, right)
        if call.is_in_place:
            # The tensor itself, where it was; the rest of the memory is as before.
            mine = got if operation[:7] != "grouped" else got[1]
            if mine is not tensor or memory != (tensor.stride(), tensor.data_ptr()):
                problem += "; another tensor"
            if tensor._base is not None and layout == "sliced" and (
                    (tensor._base == torch.tensor(7).to(tensor.dtype)).sum()
                    < tensor._base.numel() - tensor.numel()):
                problem += "; other memory has changed"
        elif difference(tensor, elements(layout, dtype, RANK)):
            problem += "; the tensor has changed"
        if problem:
            wrong[name] = problem
    return wrong


def wrong_gradients() -> dict[str, str]:
    """Of tensors in each layout, with the output's gradient in each: as with contiguous ones."""
    wrong = {}
    for operation, call in DIFFERENTIABLE.items():
        for layout, (shape, make) in LAYOUTS.items():
            if not shape and CALLS[operation].along_rows:
                continue
            gradients = []
            for change in make, torch.clone:
                tensor = change(elements(layout, "float32", RANK)).requires_grad_()
                output = call(tensor)
                given = torch.arange(output.numel()).to(output.dtype).reshape(output.shape)
                given = make(given) if layout != "expanded" else torch.ones((), dtype=(
                    output.dtype)).expand(output.shape)
                kept = given.clone()
                output.backward(given if change is make else given.contiguous())
                gradients.append(tensor.grad)
            problem = difference(*gradients)
            if not torch.equal(given, kept):
                problem += "; the output's gradient has changed"
            if problem:
                wrong[f"{operation}, {layout}"] = problem
    return wrong


def wrong_parameters() -> dict[str, str]:
    """broadcast_parameters() gives the root's values, and leaves every tensor where it is."""
    wrong = {}
    for layout, (_, make) in LAYOUTS.items():
        if layout == "expanded":
            continue
        mine = elements(layout, "float32", RANK)
        parameter = torch.nn.Parameter(make(mine) if RANK == ROOT else mine)
        buffer = mine.clone() if RANK == ROOT else make(mine)
        memory = parameter.data_ptr(), buffer.data_ptr(), parameter.stride(), buffer.stride()
        hvd.broadcast_parameters({"parameter": parameter, "buffer": buffer}, ROOT)
        right = elements(layout, "float32", ROOT)
        problem = difference([parameter, buffer], [right, right])
        if memory != (parameter.data_ptr(), buffer.data_ptr(), parameter.stride(),
                      buffer.stride()):
            problem += "; another memory"
        if problem:
            wrong[layout] = problem
    return wrong


def expanded_buffers() -> list[object]:
    """One value for many elements: what it can take, and the error where the root's differ."""
    column = torch.tensor([[1.0], [float("nan")], [3.0], [float("inf")]]) + RANK
    mask = column.clone().expand(FLAT)
    hvd.broadcast_parameters({"mask": mask}, ROOT)
    found: list[object] = [str(mask[:, 2].tolist()), mask.stride()]
    other = elements("contiguous", "float32", RANK)
    try:
        hvd.broadcast_(other if RANK == ROOT else other[:, :1].expand(FLAT), ROOT, name="differs")
    except ValueError as error:
        found.append(str(error))
    return found


def observe() -> dict:
    return {"results": wrong_results(), "gradients": wrong_gradients(),
            "parameters": wrong_parameters(), "expanded": expanded_buffers(),
            "calls": len(list(calls()))}


faulthandler.dump_traceback_later(120)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
reports = {}
for mode in sys.argv[2:]:
    with running(hvd, mode):
        reports[mode] = observe()
        hvd.barrier()
report(**reports)
