"""What a rank takes in the steps of an epoch, and where that is in the node cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from horovod_opt.io.batch import BatchInfo
from horovod_opt.io.node_reader.record_request import LocatedSteps
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.schedule import Take


class Epoch(NamedTuple):
    """An epoch, or what is left of it, the number of its first step in the node cache, its order,
    and the number of its first load."""

    epoch: int
    batches: Batches
    base: int
    order: Order
    load: int


class Located(NamedTuple):
    """What a rank takes in some steps, before `end`: positions and samples; the loads that bring
    the samples, int64[k]; where these then are, int64[k, P]; and what the loads say that they are,
    int64[k]: chunks by their numbers, or parcels by their marks."""

    end: int
    take: Take
    loads: np.ndarray
    places: np.ndarray
    chunks: np.ndarray


class Part(NamedTuple):
    """The steps `begin` to `end` - 1 of an epoch."""

    epoch: Epoch
    begin: int
    end: int


class Pass(NamedTuple):
    """What a loop goes over: steps of epochs that follow each other. It begins at `start`, (epoch,
    position). `is_rest`: less than a whole one, as a state was loaded within it."""

    start: tuple[int, int]
    parts: tuple[Part, ...]
    is_rest: bool = False

    @property
    def steps(self) -> int:
        return sum(part.end - part.begin for part in self.parts)

    @property
    def base(self) -> int:
        """The number of its first step in the node cache."""
        return self.parts[0].epoch.base + self.parts[0].begin

    @property
    def last(self) -> tuple[int, int]:
        """Epoch and step of its last batch, as its BatchInfo has them."""
        return self.parts[-1].epoch.epoch, self.parts[-1].end - 1

    def place_after(self, steps: int) -> tuple[int, int]:
        """Epoch and position of what comes next when so many steps of it, at least 1, are over."""
        for part in self.parts:
            if steps <= part.end - part.begin:
                break
            steps -= part.end - part.begin
        epoch, step = part.epoch, part.begin + steps
        if step == epoch.batches.steps:
            return epoch.epoch + 1, 0
        return epoch.epoch, epoch.batches.bounds(step - 1)[1]


class StepSamples(NamedTuple):
    """What this rank takes in a step: positions and samples int64[k], where they are in the node
    cache (as Located has it), and what the batch says of itself."""

    cache_step: int
    positions: np.ndarray
    samples: np.ndarray
    loads: np.ndarray
    places: np.ndarray
    chunks: np.ndarray
    info: BatchInfo

    def alone(self) -> Steps:
        """As the only one of several."""
        return Steps(self.cache_step, np.array([len(self.samples)]), self.positions, self.samples,
                     self.loads, self.places, self.chunks, [self.info])


class Steps(NamedTuple):
    """What this rank takes in steps that follow each other, as StepSamples has it of one: step i
    is cache_step + i, and has the samples before ends[i] (int64[steps])."""

    cache_step: int
    ends: np.ndarray
    positions: np.ndarray
    samples: np.ndarray
    loads: np.ndarray
    places: np.ndarray
    chunks: np.ndarray
    infos: list[BatchInfo]

    @property
    def located(self) -> LocatedSteps:
        """As the node's reader gets them."""
        return LocatedSteps(self.cache_step, self.ends, self.samples, self.loads, self.places,
                            self.chunks)

    def split(self) -> Iterator[StepSamples]:
        begin = 0
        for i, (end, info) in enumerate(zip(self.ends.tolist(), self.infos)):
            part = slice(begin, end)
            yield StepSamples(self.cache_step + i, *(column[part] for column in self[2:7]), info)
            begin = end
