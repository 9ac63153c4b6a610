"""What every rank must get, in NumPy. Exact: numbers are small whole ones or quarters.

NumPy has no bfloat16: what the ranks get in it, they compare as float32.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Union

import bits
import numpy as np
from programs import EXPANDED, ROW_ELEMENTS, ROWS, Collective, Function, Training

REDUCTIONS = {"Sum": np.add, "Average": np.add, "Min": np.minimum, "Max": np.maximum}

# Of a rank outside of the process set, whose bits are drawn for those in it.
NOTHING = np.zeros(0)

Arrays = list[Union[np.ndarray, bits.Result]]


def number(rank: int, turn: int) -> float:
    """What a function is called with."""
    return float((rank + turn) % 5)


def takes_branches(turn: int) -> bool:
    return turn % 2 == 0


def length(collective: Collective, rank: int, ranks: int) -> int:
    """Elements that `rank` contributes, of `ranks` that take part."""
    of_row = ROW_ELEMENTS if collective.layout else 1
    if collective.kind == "allgather":
        return (collective.length + rank) * of_row
    parts = ranks if collective.kind in ("alltoall", "reducescatter") else 1
    return collective.length * parts * of_row


def indices(collective: Collective, rank: int) -> np.ndarray:
    """Those of a sparse tensor; some occur more than once."""
    return (np.arange(collective.length) * 7 + rank) % ROWS


def results(function: Function, numbers: Sequence[float], branch: bool, present: Sequence[int]
            ) -> dict[int, Arrays]:
    """By rank, what the function returns if it is called with these numbers, by rank.

    Ranks that are not `present` have joined. `taken`: the branches are. One array for each
    collective; if the function goes through them several times, only the number that comes out."""
    if function.times == 1:
        return _once(function, dict(enumerate(numbers)), branch, present)
    values = {rank: np.float32(numbers[rank]) for rank in present}
    for _ in range(function.times):
        arrays = _once(function, values, branch, present)
        values = {rank: np.mod(values[rank] + total(arrays[rank]), np.float32(5))
                  for rank in present}
    return {rank: [np.asarray(value)] for rank, value in values.items()}


def total(arrays: Sequence[np.ndarray]) -> np.float32:
    return np.float32(sum(array.astype(np.float64).sum() for array in arrays))


def _numpy_type(about: Collective) -> str:
    return "float32" if about.dtype == "bfloat16" else about.dtype


def _once(function: Function, numbers: dict[int, float], branch: bool, present: Sequence[int]
          ) -> dict[int, Arrays]:
    arrays: dict[int, Arrays] = {rank: [] for rank in present}
    for collective in function.collectives:
        group = collective.among or range(len(numbers))
        mine: dict[int, Union[np.ndarray, bits.Result]] = {}
        for rank in present:
            elements = length(collective, rank, len(group))
            if collective.bits:
                if rank in group:
                    mine[rank] = bits.moved(bits.given(
                        collective, rank, group, elements, int(numbers[rank])), collective.dtype)
                continue
            first = np.float32(numbers[rank]) + total([arrays[rank][i] for i in collective.sources])
            row = np.mod(first + np.arange(elements, dtype=np.float32), np.float32(3)) + 1
            if collective.layout == EXPANDED:
                row = np.tile(row[:ROW_ELEMENTS], elements // ROW_ELEMENTS)
            mine[rank] = row.astype(_numpy_type(collective))
        active = [rank for rank in group if rank in mine]
        shared = dict(mine)
        if branch or not collective.sometimes:
            perform = _of_bits if collective.bits else _collective
            shared.update(zip(active, perform(collective, [mine[r] for r in active], active)))
        for rank in present:
            arrays[rank].append(shared[rank] if rank in shared else NOTHING)
    return arrays


def _of_bits(about: Collective, parts: Sequence[bits.Result], ranks: Sequence[int]
             ) -> list[bits.Result]:
    """The result of each rank of a group."""
    size, words = len(parts), [part.words for part in parts]
    if about.kind == "allreduce":
        return [bits.reduced(about.op, about.dtype, words)] * size
    if about.kind == "reducescatter":
        return bits.split(bits.reduced(about.op, about.dtype, words), size)
    return [bits.moved(array, about.dtype) for array in _collective(about, words, ranks)]


def _collective(about: Collective, parts: Arrays, ranks: Sequence[int]) -> Arrays:
    """The result of each rank of a group."""
    size = len(parts)
    if about.kind == "allreduce":
        scaled = [part * np.asarray(about.scale, part.dtype) for part in parts]
        reduced = functools.reduce(REDUCTIONS[about.op], scaled)
        mean = reduced / size if about.op == "Average" else reduced
        return [mean.astype(_numpy_type(about))] * size
    if about.kind in ("grouped", "mixed"):
        return [3 * functools.reduce(np.add, parts)] * size
    if about.kind == "broadcast":
        return [parts[0]] * size
    if about.kind == "allgather":
        return [np.concatenate(parts)] * size
    if about.kind == "alltoall":
        pieces = [np.split(part, size) for part in parts]
        return [np.concatenate([piece[place] for piece in pieces]) for place in range(size)]
    if about.kind == "reducescatter":
        return np.split(functools.reduce(np.add, parts), size)
    dense = np.zeros(ROWS, about.dtype)
    for rank, part in zip(ranks, parts):
        np.add.at(dense, indices(about, rank), part)
    return [dense] * size


def gradient(about: Training, rank: int, step: int, pass_: int, parameter: int) -> np.ndarray:
    """What one backward pass adds to the gradient of a parameter that it uses."""
    elements = np.arange(about.parameters[parameter])
    return (1 + (elements + rank + step + pass_ + parameter) % 3).astype(np.float32)


def gradients(about: Training, ranks: int, step: int) -> list[bits.Result]:
    """Of each parameter, reduced, where they are drawn as bits."""
    results = []
    for parameter, size in enumerate(about.parameters):
        parts = [bits.gradient(about.bits + parameter, about.dtype, rank, ranks, size, step)
                 for rank in range(ranks)]
        results.append(bits.reduced(about.op, about.dtype, parts))
    return results


class Weights:
    """Those of every rank; they differ while some ranks have joined and others have not."""

    def __init__(self, about: Training, ranks: int):
        self._about, self._ranks = about, ranks
        self.of_rank = [[np.zeros(size, np.float32) for size in about.parameters]
                        for _ in range(ranks)]

    def step(self, step: int, present: Sequence[int]) -> None:
        """A step of those ranks, at the rate 1."""
        about = self._about
        for parameter, size in enumerate(about.parameters):
            reduced = np.zeros(size, np.float32)
            for rank in present:
                if about.branches.takes(rank, step, parameter):
                    for pass_ in range(about.passes):
                        reduced += gradient(about, rank, step, pass_, parameter)
            if about.op == "Average":
                reduced /= self._ranks
            for rank in present:
                self.of_rank[rank][parameter] = self.of_rank[rank][parameter] - reduced

    def broadcast(self) -> None:
        """All go on with those of rank 0."""
        self.of_rank = [list(self.of_rank[0]) for _ in range(self._ranks)]
