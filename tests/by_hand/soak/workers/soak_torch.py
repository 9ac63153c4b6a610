"""Functions of PyTorch, started asynchronously and in another order on each rank; training."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Optional

import horovod.torch as hvd
import model
import numpy as np
import torch
from common import RANK
from horovod.torch.mpi_ops import _basics
from programs import ROWS, Collective, Function, Training
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


def compile_function(function: Function, name: str, sets: Sets, trouble: Trouble) -> Call:
    """To be called with a number, whether branches are taken, and the turn."""

    def once(number: np.float32, branch: bool, order: random.Random) -> list[np.ndarray]:
        results: list = [None] * len(function.collectives)
        for level in _levels(function):
            waits = {}
            for place in order.sample(level, len(level)):
                about = function.collectives[place]
                group = about.among or range(hvd.size())
                first = number + model.total([results[source] for source in about.sources])
                row = torch.arange(model.length(about, RANK, len(group)), dtype=torch.float32)
                mine = (torch.remainder(row + float(first), 3) + 1).to(getattr(torch, about.dtype))
                trouble.visit(place)
                if RANK in group and (branch or not about.sometimes):
                    waits[place] = _start(about, mine, f"{name}.{place}", sets[about.among],
                                          group[0])
                else:
                    results[place] = _array(mine)
            for place, wait in waits.items():
                results[place] = _array(wait())
        return results

    def call(number: float, branch: bool, turn: int) -> list[np.ndarray]:
        order, value = random.Random(1000 * turn + RANK), np.float32(number)
        if function.times == 1:
            return once(value, branch, order)
        for _ in range(function.times):
            value = np.mod(value + model.total(once(value, branch, order)), np.float32(5))
        return [np.asarray(value)]

    return call


def _array(tensor: torch.Tensor) -> np.ndarray:
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


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
        handle = hvd.allreduce_async(
            mine, op=getattr(hvd, about.op), prescale_factor=about.scale, **how)
    elif about.kind == "broadcast":
        handle = hvd.broadcast_async(mine, root, **how)
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


class Trainer:
    """Steps of a DistributedOptimizer at the rate 1."""

    def __init__(self, about: Training, name: str, sets: Sets, trouble: Trouble):
        self._about, self._trouble = about, trouble
        self._weights = [torch.nn.Parameter(torch.zeros(size)) for size in about.parameters]
        self._named = [(f"{name}.w{i}", weight) for i, weight in enumerate(self._weights)]
        self._optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(self._weights, lr=1.0), named_parameters=self._named,
            compression=getattr(hvd.Compression, about.compression),
            backward_passes_per_step=about.passes, op=getattr(hvd, about.op),
            gradient_predivide_factor=about.predivide, num_groups=about.groups)
        for place, weight in enumerate(self._weights):
            weight.register_hook(lambda _, place=place: trouble.visit(place))
        self._beside: Optional[Call] = None
        if about.beside is not None:
            self._beside = compile_function(about.beside, f"{name}.beside", sets, trouble)

    def step(self, step: int) -> list[np.ndarray]:
        """The weights after it, then what was called beside it."""
        self._optimizer.zero_grad()
        for pass_ in range(self._about.passes):
            loss = sum(
                (weight * torch.from_numpy(model.gradient(self._about, RANK, step, pass_, i))).sum()
                for i, weight in enumerate(self._weights)
                if self._about.branches.takes(RANK, step, i))
            loss.backward()
        beside = []
        if self._beside is not None:
            beside = self._beside(model.number(RANK, step), step % 2 == 0, step)
        self._optimizer.step()
        return [*(weight.detach().numpy().copy() for weight in self._weights), *beside]

    def broadcast(self) -> None:
        hvd.broadcast_parameters(self._named, root_rank=0)
