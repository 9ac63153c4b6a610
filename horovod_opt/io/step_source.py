"""What a loader reads: the steps of one epoch after the other, through the node's reader."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, Optional

import numpy as np

from horovod_opt.io import memory_limit, totals
from horovod_opt.io.batch import BatchInfo
from horovod_opt.io.data import Data
from horovod_opt.io.errors import InputError, ReaderEnded
from horovod_opt.io.job import nodes
from horovod_opt.io.job.agreement import require_equal, run_together
from horovod_opt.io.job.communication import find
from horovod_opt.io.job.room import PART
from horovod_opt.io.load_queue import LoadQueue
from horovod_opt.io.node_reader.layout import chunk_bytes
from horovod_opt.io.node_reader.member import Member
from horovod_opt.io.node_reader.reader_process import Reader
from horovod_opt.io.node_reader.record_request import LocatedSteps
from horovod_opt.io.node_reads import chunks_for_node
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.choice import with_ahead
from horovod_opt.io.order.memory import enough_for
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.resume_state import Rest
from horovod_opt.io.order.schedule import (
    PIECE,
    Loads,
    next_piece,
    schedule_in_pieces,
    take_steps,
)

# Samples of a rank whose order is computed together: of many, each costs little.
TOGETHER = 1 << 13
PUBLISH_SECONDS = 0.5


class Epoch(NamedTuple):
    """An epoch, or what is left of it, the number of its first step in the node cache, and its
    order."""

    epoch: int
    batches: Batches
    base: int
    order: Order


class StepSamples(NamedTuple):
    """What this rank takes in a step: positions and samples int64[k], where they are in the node
    cache (loads int64[k], places int64[k, P]), and what the batch says of itself."""

    cache_step: int
    positions: np.ndarray
    samples: np.ndarray
    loads: np.ndarray
    places: np.ndarray
    info: BatchInfo

    def alone(self) -> Steps:
        """As the only one of several."""
        return Steps(self.cache_step, np.array([len(self.samples)]), self.positions, self.samples,
                     self.loads, self.places, [self.info])


class Steps(NamedTuple):
    """What this rank takes in steps that follow each other, as StepSamples has it of one: step i
    is cache_step + i, and has the samples before ends[i] (int64[steps])."""

    cache_step: int
    ends: np.ndarray
    positions: np.ndarray
    samples: np.ndarray
    loads: np.ndarray
    places: np.ndarray
    infos: list[BatchInfo]

    @property
    def located(self) -> LocatedSteps:
        """As the node's reader gets them."""
        return LocatedSteps(self.cache_step, self.ends, self.samples, self.loads, self.places)

    def split(self) -> Iterator[StepSamples]:
        begin = 0
        for i, (end, info) in enumerate(zip(self.ends.tolist(), self.infos)):
            part = slice(begin, end)
            yield StepSamples(self.cache_step + i, *(column[part] for column in self[2:6]), info)
            begin = end


class StepSource:
    """Collective: every rank makes one with the same arguments, and goes through the same epochs.

    `epochs`: after so many from the first on nothing is read ahead; None: there is always another.

    Raises InputError if the arguments cannot be used, differ, or `memory` is too small for a node.
    """

    def __init__(self, data: Data, batch_size: Optional[int], global_batch_size: Optional[int],
                 last: str, epochs: Optional[int] = None):
        if not data.has_met:
            ranks = find()
            data.meet(ranks, nodes.find(ranks))
        self.data, self._epochs = data, epochs
        self._sizes = {"batch_size": batch_size, "global_batch_size": global_batch_size,
                       "last": last}
        whole = run_together(data.ranks, lambda: self._batches(0))
        self.steps, self.global_batch_size = whole.steps, whole.global_batch_size
        require_equal(data.ranks, {**self._sizes, "epochs": epochs, "epoch": data.epoch,
                                   "position": data.position},
                      "make the same loader, from the same state, on every rank")
        data.gather_holes()
        self._reader: Optional[Reader] = None
        self._member: Optional[Member] = None
        self._next_step = 0
        self.start()
        self.number = data.add(self, self._member)
        self.training_waited = 0.0  # seconds that the training waited for its next batch
        self._waited_now: Callable[[], float] = float  # and for those that somebody else counts
        self._last_stats: dict[str, float] = {}
        self._published = time.monotonic()
        self._total = totals.add(self.publish)
        self._ahead: Optional[Epoch] = None
        self._epochs_begun = 0
        self._lock, self._waits = threading.Lock(), threading.Lock()
        self._has_parted = False

    def start(self) -> None:
        """Collective: makes ready to read by the order that the data has now."""
        data, whole = self.data, self._batches(0)
        if self._member is not None:
            self._end()
        self._order = chunks_for_node(data.order, whole, data.node.ranks,
                                      int(data.index.size.sum()) / len(data))
        self._rest = data.rest and data.rest.order
        try:
            run_together(data.ranks, lambda: self._start_reader(whole))
            address = "" if self._reader is None else self._reader.address
            addresses = [text.decode() for text in data.ranks.allgather(address.encode())]
            self._member = run_together(data.ranks, lambda: Member(
                data.index, self._order.chunk_samples, addresses[data.node.ranks[0]],
                data.node.local_rank))
        except BaseException:  # of another rank, perhaps: what has begun here is of no use
            if self._reader is not None:
                self._reader.stop()
            raise
        self._load_queue = LoadQueue(self._member)
        self._of = data.order

    @property
    def has_begun(self) -> bool:
        """Whether a loop has."""
        return self._next_step > 0

    def can_read(self, order: Order, rest: Optional[Rest]) -> bool:
        """Whether it has been made ready to read by these."""
        return order == self._of and (rest is None or rest.order == self._rest)

    def _order_of(self, epoch: int) -> Order:
        rest = self.data.rest
        return rest.order if rest is not None and rest.epoch == epoch else self._order

    def _batches(self, position: int) -> Batches:
        return Batches(self.data.order, self.data.ranks.size, start=position, **self._sizes)

    def _start_reader(self, batches: Batches) -> None:
        data, order = self.data, self._order
        if not data.node.is_reader:
            return
        sizes = chunk_bytes(data.index, order.chunk_samples)
        memory = data.memory
        need = max(enough_for(
            known, (batches, self._batches(data.position)), data.node.ranks, sizes,
            range(data.epoch, data.epoch + self._epochs) if self._epochs else None, memory)
            for known in (order, self._rest or order))
        most = memory_limit.limit()
        if memory is None:
            memory = with_ahead(need)
            if most is not None:
                memory = max(need, min(memory, most // PART))
        origin = "memory=" if data.memory is not None else "by default memory="
        if memory < need:
            raise InputError(
                f"memory={memory_limit.show(memory)} is less than the {memory_limit.show(need)} "
                f"that shards={order.shards} and window={order.window} need at once; "
                "remedy: more memory, fewer shards, or smaller windows or chunks")
        if most is not None and memory > most:
            raise InputError(
                f"{origin}{memory_limit.show(memory)}, but this process may use "
                f"{memory_limit.show(most)} (control group or machine); remedy: a smaller window, "
                "fewer shards, or a higher limit")
        self._reader = Reader(data.index, order.chunk_samples, memory, len(data.node.ranks),
                              data.threads, chunk_bytes=sizes)

    def begin(self) -> Epoch:
        """The epoch that comes next, or what is left of it after a state was loaded. One that was
        left early begins anew."""
        data = self.data
        if self._has_parted:
            raise InputError("this loader was made for other ranks, before a reset; remedy: make "
                             "loaders in the function that hvd.elastic.run calls")
        if not data.is_resumed:
            data.advance(data.epoch, 0)
        if not self._batches(data.position).steps:  # last="drop": too few are left
            data.advance(data.epoch + 1, 0)
        data.is_resumed = False
        with self._lock:
            start = (data.epoch, data.position)
            ahead, self._ahead = self._ahead, None
            if (ahead is not None and (ahead.epoch, ahead.batches.start) == start
                    and ahead.order == self._order_of(ahead.epoch)):
                now = ahead
            else:
                now = self._feed(*start)
            data.epoch_end = now.batches.end
            self._member.skip_to(now.base)
            self._epochs_begun += 1
            if self._epochs is None or self._epochs_begun < self._epochs:
                self._ahead = self._feed(data.epoch + 1, 0)
            return now

    def _feed(self, epoch: int, position: int) -> Epoch:
        batches = self._batches(position)
        coming = Epoch(epoch, batches, self._next_step, self._order_of(epoch))
        self._next_step += batches.steps
        if self._reader is not None:
            self._reader.feed_pieces(self._pieces(coming, with_masks=True))
        self._load_queue.add(self._pieces(coming))
        return coming

    def _pieces(self, epoch: Epoch, with_masks: bool = False) -> Iterator[Loads]:
        for loads in schedule_in_pieces(epoch.order, epoch.batches, epoch.epoch,
                                        self.data.node.ranks, with_masks):
            yield loads._replace(first=loads.first + epoch.base, last=loads.last + epoch.base)

    def samples(self, epoch: Epoch) -> Iterator[StepSamples]:
        """Of each step, in order."""
        for steps in self.step_groups(epoch):
            yield from steps.split()

    def step_groups(self, epoch: Epoch) -> Iterator[Steps]:
        """The same, of many steps at a time."""
        batches, rank, group = epoch.batches, self.data.ranks.rank, self.data.node.ranks
        begin = 0
        while begin < batches.steps:
            end = next_piece(batches, begin, min(TOGETHER * batches.ranks, PIECE))
            take = take_steps(epoch.order, batches, epoch.epoch, begin, end, group, rank)
            self._load_queue.feed_until(epoch.base + end - 1)
            size, first = batches.size(begin, rank), batches.bounds(begin)[0]
            steps = epoch.base + np.repeat(np.arange(begin, end), size)
            loads, places = self._member.locate(steps, take.samples)
            count = batches.bounds(begin)[1] - first  # of the global batch; equal in these steps
            capacity, weight = batches.capacity(begin, rank), batches.weight(begin, rank)
            infos = [BatchInfo(epoch.epoch, begin + i, first + i * count, first + (i + 1) * count,
                               size, capacity, weight) for i in range(end - begin)]
            yield Steps(epoch.base + begin, np.arange(1, end - begin + 1) * size, take.positions,
                        take.samples, loads, places, infos)
            begin = end

    @property
    def member(self) -> Member:
        """Of this rank; may be sent to its workers."""
        return self._member

    def stats(self) -> dict[str, float]:
        """See Data.stats()."""
        with suppress(ReaderEnded):  # then they are those of its end
            rank, reader = self._member.stats(), self._member.reader_stats()
            parts = len(self.data.index.parts)
            self._last_stats = {
                "samples": rank.records // parts, "bytes": rank.bytes,
                "samples_from_storage": (rank.records - rank.cached) // parts,
                "reader_waits": rank.waits, "reader_wait_seconds": rank.wait_seconds,
                "node_bytes_read": reader.bytes_read, "node_requests": reader.requests,
                "node_chunks": reader.loads, "node_most_live_bytes": reader.most_live_bytes,
                "node_cached_bytes": reader.cached_bytes}
        with self._waits:
            waited = self.training_waited + self._waited_now()
        return {**self._last_stats, "training_wait_seconds": waited}

    def wait_is(self, seconds: Callable[[], float]) -> None:
        """From now until wait_is_over(), that is what the training has waited in a pass."""
        with self._waits:
            self._waited_now = seconds

    def wait_is_over(self) -> None:
        """Nobody else counts any more."""
        with self._waits:
            self.training_waited += self._waited_now()
            self._waited_now = float

    def publish(self) -> None:
        """Brings horovod_opt.stats() up to date."""
        self._published = time.monotonic()
        stats = self.stats()
        if not self.data.node.is_reader:  # they are counted where they are read
            stats = {name: value for name, value in stats.items() if not name.startswith("node_")}
        totals.publish(self._total, stats)

    def publish_now_and_then(self) -> None:
        """The same, if it was not done lately: for the table that hvd.shutdown() prints, which asks
        nobody."""
        if time.monotonic() - self._published > PUBLISH_SECONDS:
            self.publish()

    def part(self) -> None:
        """Of ranks that are no longer those of the job: none of them takes anything more, and one
        that has died will never leave."""
        self._has_parted = True
        self.close()
        if self._reader is not None:
            self._reader.stop()

    def close(self) -> None:
        """This rank takes nothing more; the node's reader ends when that is so of all its ranks."""
        self.publish()
        self._end()

    def _end(self) -> None:
        self._member.close()
        if self._reader is not None:
            self._reader.close()
