"""The ring of a node in this process: a thin wrapper of csrc/io/api/c_api.h, safe for threads."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from horovod_opt.io import native
from horovod_opt.io.errors import DataError, InputError
from horovod_opt.io.node_reader import forked
from horovod_opt.io.node_reader.errors import ReaderEnded, leader_failed
from horovod_opt.io.node_reader.layout import Extents
from horovod_opt.io.node_reader.step_queue import StepQueue

# A wait in C hears of no signal: so often Python looks whether there was one.
PATIENCE_MS = 500


class LeaderStats(NamedTuple):
    """Bytes from storage, calls of pread(2), chunks read and skipped; bytes of the chunks that are
    live, and the most that ever were; the most bytes of memory that slots have used; bytes of
    chunks that were left in the page cache."""

    bytes_read: int
    requests: int
    loads: int
    skipped_loads: int
    live_bytes: int
    most_live_bytes: int
    most_used_bytes: int
    cached_bytes: int


class RankStats(NamedTuple):
    """Of a rank and its workers: waits that slept, seconds of waits, records and bytes taken; how
    many of the records out of the page cache."""

    waits: int
    wait_seconds: float
    records: int
    bytes: int
    cached: int


class Wanted:
    """Records of steps that follow each other, as Ring.take() gets them, and how far it is.

    `ends` int64[steps]: step i has the records before ends[i]. Of each record, int64[n]: `load`,
    `place` in its slot, `size`, and `out_place`, where it comes; and `crc`, uint32[n] or None;
    `file`, int32[n], and `offset` in it, for what is in the page cache.
    """

    def __init__(self, ends: np.ndarray, load: np.ndarray, place: np.ndarray, size: np.ndarray,
                 crc: np.ndarray | None, file: np.ndarray, offset: np.ndarray,
                 out_place: np.ndarray):
        self.status = np.empty(len(load), np.int32)  # of each record that was taken (statuses.py)
        self._arrays = (ends, load, place, size, crc, file, offset, out_place,
                        self.status)  # they must stay
        self.addresses = [None if one is None else one.ctypes.data for one in self._arrays]
        self._taken = (ctypes.c_int64 * 3)()
        each = ctypes.sizeof(ctypes.c_int64)
        self.progress = [ctypes.addressof(self._taken) + i * each for i in range(3)]

    @property
    def steps_taken(self) -> int:
        """Steps that were taken, from the first one on."""
        return self._taken[0]

    @property
    def bad(self) -> int:
        """How many of the records that were taken are not good."""
        return self._taken[2]


class Ring:
    """Raises ReaderEnded from every call after close(), and from those that close() interrupts."""

    def __init__(self, handle: int | None):
        self._lib = native.library()
        if not handle:
            raise DataError(self._error())
        self._handle: int | None = handle
        self._idle = threading.Condition()
        self._calls = 0
        self._kept: tuple = ()  # arrays that C++ reads
        forked.watch(self)

    @classmethod
    def create(cls, ranks: int, slots: int, slot_bytes: int, memory: int, start: int = 0) -> Ring:
        """A leader's: `memory` bytes for chunks of up to `slot_bytes`; steps begin with `start`."""
        return cls(native.library().hio_create(ranks, slots, slot_bytes, memory, start))

    @classmethod
    def attach(cls, file: int) -> Ring:
        """The ring behind a descriptor that a leader has handed over, and which is taken."""
        return cls(native.library().hio_attach(file))

    @property
    def file(self) -> int:
        """The descriptor to hand over."""
        return self._call(self._lib.hio_file)

    def watch(self, socket: int) -> None:
        """Ends the ring for this process when the other end of `socket` is closed."""
        self._checked(self._call(self._lib.hio_watch, socket))

    def know_files(self, index) -> None:
        """The index's files: before start(), gather() and take()."""
        files = index.files
        self._kept = (np.ascontiguousarray(files.names.blob, np.uint8),
                      *(np.ascontiguousarray(each, np.int64)
                        for each in (files.names.ends, files.sizes, files.mtimes_ns)))
        self._checked(self._call(self._lib.hio_files, os.fsencode(index.root), len(self._kept[1]),
                                 *(each.ctypes.data for each in self._kept)))

    def start(self, threads: int, leave_cached: bool) -> None:
        """Starts the leader's threads. `leave_cached`: what is in the page cache stays there, and
        each rank takes its records from there."""
        self._checked(self._call(self._lib.hio_start, threads, leave_cached))

    def announce(self, first: np.ndarray, last: np.ndarray, size: np.ndarray) -> None:
        """Raises InputError if loads of `size` bytes, needed in steps `first` to `last` (int64[n]),
        cannot come next: none of them counts then."""
        if self._call(self._lib.hio_announce, len(first), *_addresses(first, last, size)):
            raise InputError(self._error())

    def add(self, first: np.ndarray, last: np.ndarray, extents: Extents) -> None:
        """The next loads, as announced. Waits while many are not begun."""
        self._checked(self._call(
            self._lib.hio_loads, len(first),
            *_addresses(first, last, extents.bytes, extents.begin, extents.file, extents.offset,
                        extents.length, extents.place)))

    def gather(self, rank: int, step: int, load: np.ndarray, place: np.ndarray, size: np.ndarray,
               crc: np.ndarray | None, file: np.ndarray, offset: np.ndarray, out: np.ndarray,
               out_place: np.ndarray) -> np.ndarray:
        """Copies records to `out`, waiting for their loads. Returns a status for each: int32[n]."""
        status = np.empty(len(load), np.int32)
        begin = ctypes.c_int64(0)
        arguments = (rank, step, len(load), *_addresses(load, place, size),
                     None if crc is None else crc.ctypes.data,
                     *_addresses(file, offset, out, out_place, status),
                     ctypes.addressof(begin), PATIENCE_MS)
        code = native.TIMEOUT
        while code == native.TIMEOUT:  # here Python's signal handlers run
            code = self._call(self._lib.hio_gather, *arguments)
        self._checked(code, f"step {step} of rank {rank}")
        return status

    def take(self, rank: int, first: int, wanted: Wanted, steps: int,
             out: np.ndarray | None = None, origin: int = 0) -> None:
        """Copies records of the wanted steps up to number `steps` - 1 to `out`, and is done with
        each: those from `wanted.steps_taken` on that are there, and at least one, which is waited
        for. Step 0 is `first` in the ring; `out` begins with the place `origin`; without it, places
        are addresses."""
        code = native.TIMEOUT
        while code == native.TIMEOUT:  # here Python's signal handlers run
            code = self._call(self._lib.hio_take, rank, first, steps, *wanted.addresses,
                              None if out is None else out.ctypes.data, origin,
                              *wanted.progress, PATIENCE_MS)
        if code != native.OK:
            self.check_taken(code, rank, first + wanted.steps_taken)

    def check_taken(self, code: int, rank: int, step: int, text: str | None = None) -> None:
        """Raises what the code says of taking a step; `text`: of a failure in another thread."""
        self._check_distance(code, rank, step)
        self._checked(code, f"step {step} of rank {rank}", text)

    def queue(self, rank: int) -> StepQueue:
        """A new queue of the rank's steps."""
        handle = self._call(self._lib.hio_queue_create, rank)
        if not handle:
            raise DataError(self._error())
        return StepQueue(handle)

    def done(self, rank: int, step: int) -> None:
        """The rank needs nothing more of the step. Raises InputError far ahead of its first step
        that is not done."""
        self._check_distance(self._call(self._lib.hio_done, rank, step), rank, step)

    def _check_distance(self, code: int, rank: int, step: int) -> None:
        if code == native.TOO_FAR:
            raise InputError(f"rank {rank} ends step {step}, but has not ended step "
                             f"{self.cursor(rank)}; remedy: end each step, or skip to a later one")

    def skip_to(self, rank: int, step: int) -> None:
        """The rank needs nothing of the steps before this one."""
        self._call(self._lib.hio_skip_to, rank, step)

    def leave(self, rank: int) -> None:
        """The rank needs nothing more."""
        self._call(self._lib.hio_leave, rank)

    def has_left(self, rank: int) -> bool:
        """Whether the rank, in whichever process it is, needs nothing more."""
        return bool(self._call(self._lib.hio_has_left, rank))

    def cursor(self, rank: int) -> int:
        """The first step that the rank has not done."""
        return self._call(self._lib.hio_cursor, rank)

    def leader_stats(self) -> LeaderStats:
        """The same in all processes of the node."""
        numbers = (ctypes.c_int64 * len(LeaderStats._fields))()
        self._call(self._lib.hio_leader_stats, ctypes.addressof(numbers))
        return LeaderStats(*numbers)

    def rank_stats(self, rank: int) -> RankStats:
        """The same in all processes of the node."""
        numbers = (ctypes.c_int64 * len(RankStats._fields))()
        self._call(self._lib.hio_rank_stats, rank, ctypes.addressof(numbers))
        waits, nanoseconds, *others = numbers
        return RankStats(waits, nanoseconds * 1e-9, *others)

    def end(self, dead_rank: int | None = None) -> None:
        """Ends it for all processes of the node: closed, or because a rank has died."""
        self._call(self._lib.hio_end, -1 if dead_rank is None else dead_rank)

    def fail(self, why: str) -> None:
        """Ends it for all processes of the node: their calls raise DataError with this text."""
        self._call(self._lib.hio_fail, why.encode(errors="replace"))

    def close(self) -> None:
        """Ends it for this process, for all if it is the leader's, and frees its memory."""
        with self._idle:
            handle, self._handle = self._handle, None
            if handle is None:
                return
            self._lib.hio_end_here(handle)
            self._idle.wait_for(lambda: self._calls == 0)
        self._lib.hio_free(handle)

    def let_go(self) -> None:
        """In a forked process, which has not the memory: every call then raises ReaderEnded."""
        if self._handle is not None:
            self._lib.hio_forget(self._handle)
        self._handle = None
        self._idle = threading.Condition()

    def _call(self, function: Callable, *arguments: object) -> int:
        """A call that close() waits for."""
        with self._idle:
            handle = self._handle
            if handle is None:
                raise ReaderEnded("the reader is closed in this process, or was opened before this "
                                  "process was forked; remedy: open it here")
            self._calls += 1
        try:
            return function(handle, *arguments)
        finally:
            with self._idle:
                self._calls -= 1
                if self._handle is None:
                    self._idle.notify_all()

    def _checked(self, code: int, what: str = "", text: str | None = None) -> None:
        if code == native.OK:
            return
        prefix = f"{what}: " if what else ""
        if code == native.OVER:
            raise InputError(f"{prefix}over already, or not fed for it; remedy: take all of a step "
                             "before it is done")
        if code == native.RANK_DIED:
            dead = self._call(self._lib.hio_dead_rank)
            raise ReaderEnded(f"{prefix}rank {dead} of this node has ended without closing its "
                              "data; remedy: see its own error")
        if code == native.LEADER_DIED:
            raise ReaderEnded(f"{prefix}the node's leader, which reads for this rank, has ended; "
                              "remedy: see its own error")
        if code == native.CLOSED:
            raise ReaderEnded(f"{prefix}the reader is closed")
        reason = self._error() if text is None else text
        if code == native.LEADER_FAILED:
            raise leader_failed(reason, prefix)
        raise DataError(f"{prefix}{reason}")

    def _error(self) -> str:
        return self._lib.hio_error().decode(errors="replace")


def _addresses(*arrays: np.ndarray) -> list[int]:
    return [array.ctypes.data for array in arrays]
