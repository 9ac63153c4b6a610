"""A rank of the node, or one of its workers: takes samples out of the leader's ring."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator

import numpy as np

from horovod_opt.io.errors import InputError
from horovod_opt.io.node_reader import closing
from horovod_opt.io.node_reader.byte_lists import new_byte_lists
from horovod_opt.io.node_reader.errors import ReaderEnded
from horovod_opt.io.node_reader.handover import RANK, WORKER, Taker
from horovod_opt.io.node_reader.node_cache import LeaderStats, RankStats, Ring, Wanted
from horovod_opt.io.node_reader.placement import Placement
from horovod_opt.io.node_reader.step_queue import Said, StepQueue
from horovod_opt.io.node_reader.taken import Taken, TakenBytes

AT_ONCE = 1 << 19  # bytes of steps that are taken together; at least one step is


class Member:
    """`rank` of the ranks of this node, from 0 on, at the leader's `address`.

    It may be used by several threads. In a process that was forked, or that it was pickled to, as
    DataLoader's workers are, it attaches itself again on first use, as a worker of the same rank:
    the rank's death ends the reading, a worker's does not. What it was fed does not go along with a
    copy: workers use take_steps().
    """

    def __init__(self, index, chunk_samples: int, address: str, rank: int):
        self._index, self._chunk_samples = index, chunk_samples
        self._address, self.rank = address, rank
        self._placements: tuple[Placement, ...] = ()  # in the order of their steps
        self.next_load = 0  # the number that the next load fed gets
        self._is_closed = False
        self._attach(RANK)

    def _attach(self, kind: str) -> None:
        self._lock = threading.Lock()  # for placements
        self._kind = kind
        self._process = os.getpid()
        self._taker = Taker(self._address, kind, self.rank)
        self._ring = Ring.attach(self._taker.file)
        self._ring.know_files(self._index)
        self._ring.watch(self._taker.connection.fileno())
        closing.at_exit(member=self)

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items()
                if name not in ("_lock", "_ring", "_taker", "_process", "_kind", "_placements")}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state, _process=-1, _placements=())

    def _here(self) -> Ring:
        """The ring as this process has it."""
        if self._is_closed:
            raise ReaderEnded(f"rank {self.rank} has closed its reader; remedy: open it again")
        if self._process != os.getpid():
            self._attach(WORKER)
        return self._ring

    def feed(self, loads, number: int | None = None) -> None:
        """What the leader was fed, in the same order: arrays `chunk`, `first`, `last`, int64[n].

        All of an epoch, or pieces of it, one after the other. `number` is that of the first load,
        where that is not the next one: in a worker that was not told of earlier ones. Raises
        InputError for a chunk that an earlier load is still there for.
        """
        self._here()
        chunk, first, last = (np.ascontiguousarray(each, np.int64)
                              for each in (loads.chunk, loads.first, loads.last))
        if not len(chunk):
            return
        begin = self.next_load if number is None else number
        with self._lock:
            step = self._ring.cursor(self.rank)
            if self._placements and first.min() <= self._placements[-1].last_step:
                self._placements[-1].extend(begin, chunk, first, last, step)
            else:
                kept = [each for each in self._placements if each.last_step >= step]
                self._placements = (*kept, Placement(self._index, self._chunk_samples, begin,
                                                     chunk, first, last))
            self.next_load = begin + len(chunk)

    def locate(self, steps: int | np.ndarray, samples: np.ndarray
               ) -> tuple[np.ndarray, np.ndarray]:
        """Where samples (int64[k]) of this step, or of steps (int64[k], ascending), are: loads
        int64[k], places in slots int64[k, P].

        Raises InputError for a sample that is not among the loads that were fed for the step.
        """
        samples = np.ascontiguousarray(samples, np.int64)
        if not len(samples):  # so perhaps nothing was fed
            return samples, np.zeros((0, len(self._index.size[:1].T)), np.int64)
        steps = np.broadcast_to(steps, samples.shape)
        with self._lock:
            begins = [each.first_step for each in self._placements]
            which = np.searchsorted(begins, steps, side="right") - 1
            if which[0] < 0:
                raise InputError(f"step {steps[0]} was not fed; remedy: feed its loads first")
            ends = [*(np.flatnonzero(np.diff(which)) + 1), len(samples)]
            found = [self._placements[which[begin]].find(
                steps[begin:end], samples[begin:end], self._index.size[samples[begin:end]])
                for begin, end in zip([0, *ends], ends)]
        return tuple(map(np.concatenate, zip(*found)))

    def take(self, step: int, samples: np.ndarray) -> Taken:
        """The bytes of these samples (int64[k]), which the rank needs in this step. Waits asleep
        until they are read.

        Raises ReaderEnded when the leader or a rank of the node has ended, InputError for a sample
        that is not among the step's loads, or a step that is done.
        """
        ring = self._here()
        samples = np.ascontiguousarray(samples, np.int64)
        wanted = _Records(self._index, samples, *self.locate(step, samples))
        buffer = np.empty(wanted.bytes, np.uint8)
        status = ring.gather(self.rank, step, wanted.loads, wanted.places, wanted.size.ravel(),
                             wanted.crc, wanted.file, wanted.offset, buffer,
                             wanted.begin.ravel())
        status = status.reshape(wanted.size.shape)
        return Taken(step, samples, buffer, wanted.begin, wanted.size, status,
                     not status.any(), wanted.are_equal)

    def take_steps(self, first: int, ends: np.ndarray, samples: np.ndarray, loads: np.ndarray,
                   places: np.ndarray) -> Iterator[Taken]:
        """All samples of the steps from `first` on: step first + i has those (int64[k]) before
        ends[i] (int64[steps]), where locate() has found them, perhaps in another process: nothing
        has to be fed here. A step is done when it is taken: what is there of steps to come is taken
        along, up to AT_ONCE bytes.

        Raises as take() does, and InputError for a step that is far ahead of one that is not done.
        """
        ring = self._here()
        wanted = _Records(self._index, samples, loads, places)
        parts = wanted.size.shape[1]
        records = wanted.of_steps(ends * parts, wanted.begin.ravel())
        status = records.status.reshape(wanted.size.shape)
        end_bytes = np.append(wanted.begin[:, 0], wanted.bytes)[ends]
        ends, begin = ends.tolist(), 0
        while (step := records.steps_taken) < len(ends):
            start, bad = int(end_bytes[step - 1]) if step else 0, records.bad
            steps = max(int(np.searchsorted(end_bytes, start + AT_ONCE, side="right")), step + 1)
            out = np.empty(int(end_bytes[steps - 1]) - start, np.uint8)
            ring.take(self.rank, first, records, steps, out, start)
            is_good = records.bad == bad
            for taken in range(step, records.steps_taken):
                part, before = slice(begin, ends[taken]), int(end_bytes[taken - 1]) if taken else 0
                yield Taken(first + taken, samples[part],
                            out[before - start:int(end_bytes[taken]) - start],
                            wanted.begin[part] - before, wanted.size[part], status[part],
                            is_good or not status[part].any(), wanted.are_equal)
                begin = ends[taken]

    def take_bytes(self, first: int, ends: np.ndarray, samples: np.ndarray, loads: np.ndarray,
                   places: np.ndarray) -> Iterator[TakenBytes]:
        """The same as bytes objects, of samples of one part."""
        ring = self._here()
        wanted = _Records(self._index, samples, loads, places)
        addresses = np.empty(len(samples), np.int64)
        records = wanted.of_steps(ends, addresses)
        end_bytes = np.cumsum(wanted.size)[ends - 1] if len(samples) else np.zeros_like(ends)
        begin, waiting = 0, deque()  # lists of steps that are not there yet
        while (step := records.steps_taken) < len(ends):
            if not waiting:
                until = AT_ONCE + (int(end_bytes[step - 1]) if step else 0)
                steps = max(int(np.searchsorted(end_bytes, until, side="right")), step + 1)
                waiting.extend(new_byte_lists(ends[step:steps] - begin, wanted.size[begin:],
                                              addresses[begin:]))
            bad = records.bad
            ring.take(self.rank, first, records, step + len(waiting))
            is_good = records.bad == bad
            for end in ends[step:records.steps_taken].tolist():
                part = slice(begin, end)
                status = records.status[part]
                yield TakenBytes(samples[part], waiting.popleft(), status[:, np.newaxis],
                                 is_good or not status.any())
                begin = end

    def queue(self) -> StepQueue:
        """For somebody who takes this rank's steps without Python's lock."""
        return self._here().queue(self.rank)

    def enqueue(self, queue: StepQueue, first: int, ends: np.ndarray, samples: np.ndarray,
                loads: np.ndarray, places: np.ndarray, said: Said) -> None:
        """Steps as take_steps() has them, for the taker of the queue."""
        wanted = _Records(self._index, samples, loads, places)
        labels = None if self._index.label is None else self._index.label[samples]
        queue.add(first, ends, wanted.size.shape[1], wanted.queued(), labels, said)

    def check_taken(self, code: int, step: int, text: str) -> None:
        """Raises what take() does, of another thread that has got this code and text."""
        self._here().check_taken(code, self.rank, step, text)

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

    def leader_stats(self) -> LeaderStats:
        """Of the node's leader."""
        return self._here().leader_stats()

    def close(self) -> None:
        """A rank leaves for good; a worker leaves the rank as it is."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._process != os.getpid():
            return
        if self._kind == RANK:
            self._ring.leave(self.rank)
        self._ring.close()
        self._taker.let_go()

    def __del__(self) -> None:
        if hasattr(self, "_taker"):  # not where attaching has failed
            self.close()


class _Records:
    """Of samples that were located: what the ring is asked for, and where it comes."""

    def __init__(self, index, samples: np.ndarray, loads: np.ndarray, places: np.ndarray):
        self.size = np.ascontiguousarray(index.size[samples])
        self.are_equal = bool((self.size == self.size[:1]).all())
        ends = np.cumsum(self.size.ravel())
        self.bytes = int(ends[-1]) if len(ends) else 0
        self.begin = ends.reshape(self.size.shape) - self.size
        self.loads = np.repeat(loads, self.size.shape[1])
        self.places = np.ascontiguousarray(places).ravel()
        self.crc = None if index.crc is None else np.ascontiguousarray(index.crc[samples]).ravel()
        self.file = np.ascontiguousarray(index.file[samples], np.int32).ravel()
        self.offset = np.ascontiguousarray(index.offset[samples], np.int64).ravel()

    def queued(self) -> tuple[np.ndarray | None, ...]:
        """As StepQueue.add() gets them."""
        return (self.loads, self.places, self.size.ravel(), self.crc, self.file, self.offset)

    def of_steps(self, ends: np.ndarray, out_places: np.ndarray) -> Wanted:
        """Step i has the records before ends[i]."""
        return Wanted(np.ascontiguousarray(ends), self.loads, self.places, self.size.ravel(),
                      self.crc, self.file, self.offset, out_places)
