"""Functions of PyTorch, started asynchronously and in another order on each rank; training."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import bits
import horovod.torch as hvd
import model
import numpy as np
import torch
from common import RANK
from horovod.torch.mpi_ops import _basics
from programs import ROWS, Collective, Function
from soak_layouts import lay_out
from soak_trouble import Trouble

torch.set_num_threads(1)
LIBRARY = _basics.MPI_LIB_CTYPES
Sets = dict[tuple[int, ...], hvd.ProcessSet]
Call = Callable[[float, bool, int], list[np.ndarray]]


def begin() -> None:
    """A round; there is nothing to do."""


def met() -> None:
    """All ranks have come so far."""
    hvd.allreduce(torch.zeros(1), name="met")


def agree(flag: bool, name: str) -> bool:
    """Whether it is so on all ranks."""
    return bool(hvd.allreduce(torch.tensor(int(flag)), op=hvd.Min, name=name))


def flush_denormals(do: bool) -> None:
    """On this thread."""
    torch.set_flush_denormal(do)


def tensor_name(about: Collective, name: str) -> str:
    return f"{about.kind}.{name}"


def compile_function(function: Function, name: str, sets: Sets, trouble: Trouble) -> Call:
    """To be called with a number, whether branches are taken, and the turn."""

    def once(number: np.float32, branch: bool, order: random.Random) -> list[np.ndarray]:
        results: list = [None] * len(function.collectives)
        for level in _levels(function):
            waits = {}
            for place in order.sample(level, len(level)):
                about = function.collectives[place]
                group = about.among or range(hvd.size())
                if about.bits and RANK not in group:
                    results[place] = model.NOTHING
                    continue
                mine = lay_out(_input(about, group, number, results), about.layout)
                trouble.visit(place)
                if RANK in group and (branch or not about.sometimes):
                    waits[place] = _start(about, mine, f"{name}.{place}", sets[about.among],
                                          group[0])
                else:
                    results[place] = _array(mine, about)
            for place, wait in waits.items():
                results[place] = _array(wait(), function.collectives[place])
        return results

    def call(number: float, branch: bool, turn: int) -> list[np.ndarray]:
        order, value = random.Random(1000 * turn + RANK), np.float32(number)
        if function.times == 1:
            return once(value, branch, order)
        for _ in range(function.times):
            value = np.mod(value + model.total(once(value, branch, order)), np.float32(5))
        return [np.asarray(value)]

    return call


def _input(about: Collective, group: Sequence[int], number: np.float32, results: list
           ) -> torch.Tensor:
    """Flat."""
    dtype, size = getattr(torch, about.dtype), model.length(about, RANK, len(group))
    if about.bits:
        words = bits.given(about, RANK, group, size, int(number))
        return torch.from_numpy(words.view(np.uint8)).view(dtype)
    first = number + model.total([results[source] for source in about.sources])
    row = torch.arange(size, dtype=torch.float32)
    return (torch.remainder(row + float(first), 3) + 1).to(dtype)


def _array(tensor: torch.Tensor, about: Collective) -> np.ndarray:
    flat = tensor.contiguous().reshape(-1)
    if about.bits:
        return flat.view(torch.uint8).numpy().view(bits.word(about.dtype))
    return (flat.float() if tensor.dtype == torch.bfloat16 else flat).numpy()


def _levels(function: Function) -> list[list[int]]:
    """Places whose sources are all in earlier levels: a rank may start each level in any order."""
    level: list[int] = []
    for about in function.collectives:
        level.append(1 + max((level[source] for source in about.sources), default=-1))
    return [[place for place, own in enumerate(level) if own == number]
            for number in range(max(level) + 1)]


def _start(about: Collective, mine: torch.Tensor, name: str, group: hvd.ProcessSet, root: int
           ) -> Callable[[], torch.Tensor]:
    """Starts it; the result waits for it."""
    how = {"name": name, "process_set": group}
    if about.kind == "allreduce":
        start = hvd.allreduce_async_ if about.in_place else hvd.allreduce_async
        handle = start(mine, op=getattr(hvd, about.op), prescale_factor=about.scale, **how)
    elif about.kind == "broadcast":
        start = hvd.broadcast_async_ if about.in_place else hvd.broadcast_async
        handle = start(mine, root, **how)
    elif about.kind == "allgather":
        handle = hvd.allgather_async(mine, **how)
    elif about.kind == "alltoall":
        handle = hvd.alltoall_async(mine, **how)
        return lambda: hvd.synchronize(handle)[0]
    elif about.kind == "reducescatter":
        handle = hvd.reducescatter_async(mine, op=hvd.Sum, **how)
    elif about.kind == "grouped":
        handle = hvd.grouped_allreduce_async([mine, 2 * mine], op=hvd.Sum, **how)
        return lambda: sum(hvd.synchronize(handle))
    else:
        rows = torch.from_numpy(model.indices(about, RANK))[None]
        sparse = torch.sparse_coo_tensor(rows, mine, (ROWS,), check_invariants=True)
        wait = hvd.sparse_allreduce_async(sparse, op=hvd.Sum, **how)
        return lambda: wait().to_dense()
    return lambda: hvd.synchronize(handle)


def trainer(*arguments: object):
    from soak_trainer import Trainer

    return Trainer(*arguments)
