"""A rank of the node, or one of its workers: takes samples out of the reader's node cache."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from horovod_opt.io.errors import InputError, ReaderEnded
from horovod_opt.io.index.unpacked_index import UnpackedIndex
from horovod_opt.io.job.patience import Wait
from horovod_opt.io.node_reader import lifetime
from horovod_opt.io.node_reader.handover import RANK, WORKER, HandoverClient
from horovod_opt.io.node_reader.hole_log import HoleLog
from horovod_opt.io.node_reader.node_cache import NodeCache, RankStats, ReaderStats
from horovod_opt.io.node_reader.placement import Placement
from horovod_opt.io.node_reader.record_request import LocatedRecords, LocatedSteps, RecordRequest
from horovod_opt.io.node_reader.records import StepBytes, StepRecords, new_byte_lists
from horovod_opt.io.node_reader.step_queue import BatchInfos, StepQueue

AT_ONCE = 1 << 19  # bytes of steps that are taken together; at least one step is


class Member:
    """`rank` of the ranks of this node, from 0 on, at the reader's `address`. `ranks`: which of the
    job these are.

    It may be used by several threads. In a process that was forked, or that it was pickled to, as
    DataLoader's workers are, it attaches itself again on first use, as a worker of the same rank:
    the rank's death ends the reading, a worker's does not. What it was fed does not go along with a
    copy: workers use take_steps().
    """

    def __init__(self, index, chunk_samples: int, address: str, rank: int,
                 ranks: Sequence[int] = ()):
        self._index, self._chunk_samples = index, chunk_samples
        self._address, self.rank, self._ranks = address, rank, tuple(ranks)
        self._placements: tuple[Placement, ...] = ()  # in the order of their steps
        self.next_load = 0  # the number that the next load fed gets
        self._is_closed = False
        self._attach(RANK)

    def _attach(self, kind: str) -> None:
        self._lock = threading.Lock()  # for placements
        self._kind = kind
        self._process = os.getpid()
        has_packed = self._index.unpacked is not None
        self._client = HandoverClient(self._address, kind, self.rank, count=2 + has_packed)
        cache_file, holes_file, *unpacked_file = self._client.files
        # By which it is read; its descriptor stays open as long as this object is there.
        self._places = UnpackedIndex(self._index, *unpacked_file) if has_packed else self._index
        self._unpacked_file = unpacked_file
        self.holes = HoleLog(holes_file)  # of all ranks of the node
        self._cache = NodeCache.attach(cache_file)
        self._cache.know_files(self._places)
        self._cache.know_ranks(self._ranks)
        self._cache.watch(self._client.connection.fileno())
        lifetime.close_at_exit(member=self)

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items()
                if name not in ("_lock", "_cache", "_client", "_process", "_kind", "_placements",
                                "_places", "_unpacked_file", "holes")}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state, _process=-1, _placements=())

    def _here(self) -> NodeCache:
        """The node cache as this process has it."""
        if self._is_closed:
            raise ReaderEnded(f"rank {self.rank} has closed its reader; remedy: open it again")
        if self._process != os.getpid():
            self._attach(WORKER)
        return self._cache

    def feed(self, loads, number: int | None = None) -> None:
        """What the reader was fed, in the same order: arrays `chunk`, `first`, `last`, int64[n].

        All of an epoch, or pieces of it, one after the other. `number` is that of the first load,
        where that is not the next one: of an epoch with numbers of its own, or in a worker that was
        not told of earlier ones. Raises InputError for a chunk that an earlier load is still there
        for.
        """
        self._here()
        chunk, first, last = (np.ascontiguousarray(column, np.int64)
                              for column in (loads.chunk, loads.first, loads.last))
        if not len(chunk):
            return
        begin = self.next_load if number is None else number
        with self._lock:
            step = self._cache.cursor(self.rank)
            if self._placements and first.min() <= self._placements[-1].last_step:
                self._placements[-1].extend(begin, chunk, first, last, step)
            else:
                current = [placement for placement in self._placements
                           if placement.last_step >= step]
                self._placements = (*current, Placement(self._places, self._chunk_samples, begin,
                                                     chunk, first, last))
            self.next_load = begin + len(chunk)

    def locate(self, steps: int | np.ndarray, samples: np.ndarray
               ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where samples (int64[k]) of this step, or of steps (int64[k], ascending), are: loads
        int64[k], places in chunk buffers int64[k, P]; and their chunks, int64[k].

        Raises InputError for a sample that is not among the loads that were fed for the step.
        """
        samples = np.ascontiguousarray(samples, np.int64)
        if not len(samples):  # so perhaps nothing was fed
            return samples, np.zeros((0, len(self._index.size[:1].T)), np.int64), samples
        steps = np.broadcast_to(steps, samples.shape)
        with self._lock:
            begins = [placement.first_step for placement in self._placements]
            which = np.searchsorted(begins, steps, side="right") - 1
            if which[0] < 0:
                raise InputError(f"step {steps[0]} was not fed; remedy: feed its loads first")
            ends = [*(np.flatnonzero(np.diff(which)) + 1), len(samples)]
            pieces = [self._placements[which[begin]].find(
                steps[begin:end], samples[begin:end], self._index.size[samples[begin:end]])
                for begin, end in zip([0, *ends], ends)]
        return *map(np.concatenate, zip(*pieces)), samples // self._chunk_samples

    def take(self, step: int, samples: np.ndarray) -> StepRecords:
        """The bytes of these samples (int64[k]), which the rank needs in this step. Waits asleep
        until they are read.

        Raises ReaderEnded when the reader or a rank of the node has ended, InputError for a sample
        that is not among the step's loads, or a step that is done.
        """
        cache = self._here()
        samples = np.ascontiguousarray(samples, np.int64)
        records = self._located(samples, *self.locate(step, samples))
        buffer = np.empty(records.bytes, np.uint8)
        status = cache.gather(self.rank, step, records, buffer).reshape(records.size.shape)
        return StepRecords(step, samples, buffer, records.begin, records.size, status,
                           not status.any(), records.are_equal)

    def take_steps(self, steps: LocatedSteps) -> Iterator[StepRecords]:
        """All samples of these steps: nothing has to be fed here. A step is done when it is taken:
        what is there of steps to come is taken along, up to AT_ONCE bytes.

        Raises as take() does, and InputError for a step that is far ahead of one that is not done.
        """
        cache, first, samples = self._here(), steps.first, steps.samples
        records = self._located(samples, steps.loads, steps.places, steps.chunks)
        parts = records.size.shape[1]
        request = RecordRequest(records, records.begin.ravel(), steps.ends * parts)
        status = request.status.reshape(records.size.shape)
        end_bytes = np.append(records.begin[:, 0], records.bytes)[steps.ends]
        ends, begin = steps.ends.tolist(), 0
        while (step := request.steps_taken) < len(ends):
            start, bad = int(end_bytes[step - 1]) if step else 0, request.bad
            until = _steps_at_once(end_bytes, start, step)
            out = np.empty(int(end_bytes[until - 1]) - start, np.uint8)
            request.send_to(out, start)
            cache.take(self.rank, first, request, until)
            is_good = request.bad == bad
            for number in range(step, request.steps_taken):
                part = slice(begin, ends[number])
                before = int(end_bytes[number - 1]) if number else 0
                yield StepRecords(first + number, samples[part],
                                  out[before - start:int(end_bytes[number]) - start],
                                  records.begin[part] - before, records.size[part], status[part],
                                  is_good or not status[part].any(), records.are_equal)
                begin = ends[number]

    def take_bytes(self, steps: LocatedSteps) -> Iterator[StepBytes]:
        """The same as bytes objects, of samples of one part."""
        cache, ends, samples = self._here(), steps.ends, steps.samples
        records = self._located(samples, steps.loads, steps.places, steps.chunks)
        addresses = np.empty(len(samples), np.int64)
        request = RecordRequest(records, addresses, ends)
        end_bytes = np.cumsum(records.size)[ends - 1] if len(samples) else np.zeros_like(ends)
        begin, waiting = 0, deque()  # lists of steps that are not there yet
        while (step := request.steps_taken) < len(ends):
            if not waiting:
                until = _steps_at_once(end_bytes, int(end_bytes[step - 1]) if step else 0, step)
                waiting.extend(new_byte_lists(ends[step:until] - begin, records.size[begin:],
                                              addresses[begin:]))
            bad = request.bad
            cache.take(self.rank, steps.first, request, step + len(waiting))
            is_good = request.bad == bad
            for end in ends[step:request.steps_taken].tolist():
                part = slice(begin, end)
                status = request.status[part]
                yield StepBytes(samples[part], waiting.popleft(), status[:, np.newaxis],
                                is_good or not status.any())
                begin = end

    def _located(self, samples: np.ndarray, loads: np.ndarray, places: np.ndarray,
                 chunks: np.ndarray) -> LocatedRecords:
        return LocatedRecords(self._places, samples, loads, places, chunks)

    def queue(self) -> StepQueue:
        """For somebody who takes this rank's steps without Python's lock."""
        return self._here().queue(self.rank)

    def enqueue(self, queue: StepQueue, steps: LocatedSteps, infos: BatchInfos) -> None:
        """Steps as take_steps() gets them, for the taker of the queue."""
        records = self._located(steps.samples, steps.loads, steps.places, steps.chunks)
        labels = None if self._index.label is None else self._index.label[steps.samples]
        queue.add(steps.first, steps.ends, records, labels, infos)

    def check_taken(self, code: int, step: int, text: str) -> None:
        """Raises what take() does, of another thread that has got this code and text."""
        self._here().check_taken(code, self.rank, step, text)

    def look(self, wait: Wait, step: int) -> None:
        """Says what another thread, which has begun to `wait`, waits for if that is long."""
        cache = self._here()
        wait.look(lambda seconds: cache.describe_wait(self.rank, step, seconds))

    def leave_out(self, epoch: int, samples: np.ndarray) -> int:
        """These samples (int64[k]) are damaged, and no rank's. Returns how many of the epoch are,
        on this node."""
        self._here()
        return self.holes.add(epoch, samples)

    def fail(self, why: str) -> None:
        """Ends the reading: all ranks of the node raise DataError with this text."""
        self._here().fail(why)

    def done(self, step: int) -> None:
        """The rank, its workers included, needs nothing more of the step. Steps may be done in any
        order. Raises InputError far ahead of the first one that is not."""
        self._here().done(self.rank, step)

    def skip_to(self, step: int) -> None:
        """The rank needs nothing of the steps before this one: what only they need is not read."""
        self._here().skip_to(self.rank, step)

    def stats(self) -> RankStats:
        """Of this rank and its workers."""
        return self._here().rank_stats(self.rank)

    def reader_stats(self) -> ReaderStats:
        """Of the node's reader."""
        return self._here().reader_stats()

    def close(self) -> None:
        """A rank leaves for good; a worker leaves the rank as it is."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._process != os.getpid():
            return
        if self._kind == RANK:  # whose `holes` are somebody's who may still look at them
            self._cache.leave(self.rank)
        else:
            self.holes.close()
        self._cache.close()
        self._client.let_go()
        for file in self._unpacked_file:
            os.close(file)

    def __del__(self) -> None:
        if hasattr(self, "_client"):  # not where attaching has failed
            self.close()


def _steps_at_once(end_bytes: np.ndarray, start: int, step: int) -> int:
    """Those before this number are taken together with `step`, which begins at byte `start`."""
    return max(int(np.searchsorted(end_bytes, start + AT_ONCE, side="right")), step + 1)
