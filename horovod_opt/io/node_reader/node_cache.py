"""The cache of a node in this process: a thin wrapper of native_table.py, safe for threads."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from horovod_opt.io import native, native_table
from horovod_opt.io.errors import DataError, InputError, ReaderEnded, reader_failed
from horovod_opt.io.job.patience import Wait
from horovod_opt.io.native_table import Code
from horovod_opt.io.node_reader import lifetime
from horovod_opt.io.node_reader.layout import Checks, Extents, Origins
from horovod_opt.io.node_reader.record_request import LocatedRecords, RecordRequest, address_of
from horovod_opt.io.node_reader.step_queue import StepQueue

# A wait in C hears of no signal: so often Python looks whether there was one.
PATIENCE_MS = 500
SAME_PLACE = ("call data.load_state_dict() with the same state on every rank, before the loop; "
              "loop over it equally often on all")


def loads_for_c(number: int, chunk: np.ndarray, first: np.ndarray, last: np.ndarray,
                extents: Extents, checks: Checks | None, are_again: bool = False,
                origins: Origins | None = None) -> native_table.Loads:
    """Of arrays that stay as long as it is used."""
    columns = (first, last, extents.bytes, chunk, extents.begin, extents.file, extents.offset,
               extents.length, extents.place)
    loads = native_table.Loads(len(first), number, are_again, origins is not None,
                               *map(address_of, columns))
    if checks is not None:
        loads.are_whole = address_of(checks.are_whole)
        if checks.crc is not None:
            loads.records, loads.record_places, loads.record_sizes, loads.checksums = map(
                address_of, checks[1:])
    if origins is not None:
        loads.origin_chunks, loads.origin_places = map(address_of, origins)
    return loads


class ReaderStats(NamedTuple):
    """Bytes from storage, calls of pread(2), chunks read and skipped; bytes of the chunks that are
    live, and the most that ever were; the most bytes of memory that chunk buffers have used; bytes
    of chunks that were left in the page cache; bytes from storage that the job had read before."""

    bytes_read: int
    requests: int
    loads: int
    skipped_loads: int
    live_bytes: int
    most_live_bytes: int
    most_used_bytes: int
    cached_bytes: int
    again_bytes: int


class RankStats(NamedTuple):
    """Of a rank and its workers: waits that slept, seconds of waits, records and bytes taken; how
    many of the records out of the page cache."""

    waits: int
    wait_seconds: float
    records: int
    bytes: int
    cached: int


class NodeCache:
    """Raises ReaderEnded from every call after close(), and from those that close() interrupts."""

    def __init__(self, handle: int | None):
        self._lib = native.library()
        if not handle:
            raise DataError(native.error())
        self._handle: int | None = handle
        self._idle = threading.Condition()
        self._calls = 0
        self._file_columns: tuple = ()  # arrays that C++ reads
        self._ranks: tuple[int, ...] = ()
        lifetime.let_go_in_children(self)

    @classmethod
    def create(cls, ranks: int, buffers: int, buffer_bytes: int, memory: int, start: int = 0
               ) -> NodeCache:
        """A reader's: `memory` bytes for chunks of up to `buffer_bytes`; steps begin with
        `start`."""
        return cls(native.library().hio_cache_create(ranks, buffers, buffer_bytes, memory, start))

    @classmethod
    def attach(cls, file: int) -> NodeCache:
        """The node cache behind a descriptor that a reader has handed over, and which is taken."""
        return cls(native.library().hio_cache_attach(file))

    @property
    def file(self) -> int:
        """The descriptor to hand over."""
        return self._call(self._lib.hio_cache_file)

    def watch(self, socket: int) -> None:
        """Ends the node cache for this process when the other end of `socket` is closed."""
        self._check(self._call(self._lib.hio_cache_watch, socket))

    def know_files(self, index) -> None:
        """The index's files: before start(), gather() and take()."""
        files = index.files
        self._file_columns = (
            np.ascontiguousarray(files.names.blob, np.uint8),
            *(np.ascontiguousarray(column, np.int64)
              for column in (files.names.ends, files.sizes, files.mtimes_ns)))
        self._check(self._call(self._lib.hio_cache_set_files, os.fsencode(index.root),
                                 len(self._file_columns[1]), *map(address_of, self._file_columns)))

    def know_ranks(self, ranks: Sequence[int]) -> None:
        """Which of the job the ranks of this node are, as far as somebody is to be told."""
        self._ranks = tuple(ranks)

    def start(self, threads: int, leave_cached: bool, memory: int | None = None) -> None:
        """Starts the reader's threads. `leave_cached`: what is in the page cache stays there, and
        each rank takes its records from there. `memory`: the handle of the job's."""
        self._check(self._call(self._lib.hio_cache_start, threads, leave_cached, memory))

    def announce(self, first: np.ndarray, last: np.ndarray, size: np.ndarray) -> None:
        """Raises InputError if loads of `size` bytes, needed in steps `first` to `last` (int64[n]),
        cannot come next: none of them counts then."""
        if self._call(self._lib.hio_cache_announce, len(first),
                      *map(address_of, (first, last, size))):
            raise InputError(native.error())

    def add(self, number: int, chunk: np.ndarray, first: np.ndarray, last: np.ndarray,
            extents: Extents, checks: Checks | None = None, are_again: bool = False,
            origins: Origins | None = None) -> None:
        """The next loads, as announced, the first of which has `number`; -1: the next one. Waits
        while many are not begun. `checks`: for the job's memory, and of parcels `origins`.
        `are_again`: the job has read them before."""
        self._check(self._call(self._lib.hio_cache_add_loads, loads_for_c(
            number, chunk, first, last, extents, checks, are_again, origins)))

    def gather(self, rank: int, step: int, records: LocatedRecords, out: np.ndarray) -> np.ndarray:
        """Copies records to `out`, waiting for their loads. Returns a status for each: int32[n]."""
        request = RecordRequest(records, records.begin.ravel())
        request.send_to(out)
        begin = ctypes.c_int64(0)
        code, wait = Code.TIMEOUT, Wait()
        while code == Code.TIMEOUT:  # here Python's signal handlers run
            code = self._call(self._lib.hio_cache_gather, rank, step, request.records,
                              ctypes.addressof(begin), PATIENCE_MS)
            if code == Code.TIMEOUT:
                wait.look(lambda seconds: self.describe_wait(rank, step, seconds))
        self._check(code, f"step {step} of rank {rank}")
        return request.status

    def take(self, rank: int, first: int, request: RecordRequest, steps: int) -> None:
        """Copies records of the steps up to number `steps` - 1 of those of the request, and is done
        with each: those from `request.steps_taken` on that are there, and at least one, which is
        waited for. Step 0 is `first` in the node cache."""
        code, wait = Code.TIMEOUT, Wait()
        while code == Code.TIMEOUT:  # here Python's signal handlers run
            code = self._call(self._lib.hio_cache_take, rank, first, steps,
                              request.ends.ctypes.data, request.records, request.progress,
                              PATIENCE_MS)
            if code == Code.TIMEOUT:
                wait.look(lambda seconds: self.describe_wait(
                    rank, first + request.steps_taken, seconds))
        if code != Code.OK:
            self.check_taken(code, rank, first + request.steps_taken)

    def describe_wait(self, rank: int, step: int, seconds: float) -> str:
        """Of a rank that waits for a step: memory holds what others have not taken."""
        behind = [f"rank {number} is {step - self.cursor(other)} steps behind"
                  for other, number in enumerate(self._ranks)
                  if other != rank and not self.has_left(other) and self.cursor(other) < step]
        me = f"rank {self._ranks[rank]}" if self._ranks else "this rank"
        why = (f"{', '.join(behind[:8])}, and what they have still to take may fill memory=; "
               "remedy: loops over the same loaders on all ranks, or open(..., alone=True) for "
               "what one of them reads by itself, as an evaluation"
               if behind else "no rank is behind, so the storage is slow, or does not answer")
        return f"{me} has waited for {seconds:.0f} s for the node's reader: {why}"

    def check_taken(self, code: int, rank: int, step: int, text: str | None = None) -> None:
        """Raises what the code says of taking a step; `text`: of a failure in another thread."""
        self._check_distance(code, rank, step)
        self._check(code, f"step {step} of rank {rank}", text)

    def queue(self, rank: int) -> StepQueue:
        """A new queue of the rank's steps."""
        handle = self._call(self._lib.hio_queue_create, rank)
        if not handle:
            raise DataError(native.error())
        return StepQueue(handle)

    def done(self, rank: int, step: int) -> None:
        """The rank needs nothing more of the step. Raises InputError far ahead of its first step
        that is not done."""
        self._check_distance(self._call(self._lib.hio_cache_done, rank, step), rank, step)

    def _check_distance(self, code: int, rank: int, step: int) -> None:
        if code == Code.TOO_FAR:
            raise InputError(f"rank {rank} ends step {step}, but has not ended step "
                             f"{self.cursor(rank)}; remedy: end each step, or skip to a later one")

    def skip_to(self, rank: int, step: int) -> None:
        """The rank needs nothing of the steps before this one."""
        self._call(self._lib.hio_cache_skip_to, rank, step)

    def leave(self, rank: int) -> None:
        """The rank needs nothing more."""
        self._call(self._lib.hio_cache_leave, rank)

    def has_left(self, rank: int) -> bool:
        """Whether the rank, in whichever process it is, needs nothing more."""
        return bool(self._call(self._lib.hio_cache_has_left, rank))

    def cursor(self, rank: int) -> int:
        """The first step that the rank has not done."""
        return self._call(self._lib.hio_cache_cursor, rank)

    def reader_stats(self) -> ReaderStats:
        """The same in all processes of the node."""
        counters = native_table.ReaderCounters()
        self._call(self._lib.hio_cache_reader_counters, counters)
        return ReaderStats(*(getattr(counters, name) for name in ReaderStats._fields))

    def rank_stats(self, rank: int) -> RankStats:
        """The same in all processes of the node."""
        counters = native_table.RankCounters()
        self._call(self._lib.hio_cache_rank_counters, rank, counters)
        return RankStats(counters.waits, counters.wait_ns * 1e-9, counters.records, counters.bytes,
                         counters.cached)

    def end(self, dead_rank: int | None = None) -> None:
        """Ends it for all processes of the node: closed, or because a rank has died."""
        self._call(self._lib.hio_cache_end, -1 if dead_rank is None else dead_rank)

    def fail(self, why: str) -> None:
        """Ends it for all processes of the node: their calls raise DataError with this text."""
        self._call(self._lib.hio_cache_fail, why.encode(errors="replace"))

    def close(self) -> None:
        """Ends it for this process, for all if it is the reader's, and frees its memory."""
        with self._idle:
            handle, self._handle = self._handle, None
            if handle is None:
                return
            self._lib.hio_cache_end_here(handle)
            self._idle.wait_for(lambda: self._calls == 0)
        self._lib.hio_cache_free(handle)

    def let_go(self) -> None:
        """In a forked process, which has not the memory: every call then raises ReaderEnded."""
        if self._handle is not None:
            self._lib.hio_cache_forget(self._handle)
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

    def _check(self, code: int, what: str = "", text: str | None = None) -> None:
        if code == Code.OK:
            return
        prefix = f"{what}: " if what else ""
        if code == Code.OVER:
            raise InputError(f"{prefix}over already, or not fed for it; remedy: take all of a step "
                             "before it is done")
        if code == Code.RANK_DIED:
            dead = self._call(self._lib.hio_cache_dead_rank)
            raise ReaderEnded(f"{prefix}rank {dead} of this node has ended without closing its "
                              "data; remedy: see its own error")
        if code == Code.OTHER:
            text = (f"{prefix}it expects other samples than the node's reader reads for this step: "
                    f"the ranks are not at the same place in the data; remedy: {SAME_PLACE}")
            self.fail(text)  # all ranks of the node hear of it
            raise InputError(text)
        if code == Code.READER_DIED:
            raise ReaderEnded(f"{prefix}the node's reader, which reads for this rank, has ended; "
                              "remedy: see its own error")
        if code == Code.CLOSED:
            raise ReaderEnded(f"{prefix}the reader is closed")
        reason = native.error() if text is None else text
        if code == Code.READER_FAILED:
            raise reader_failed(reason, prefix)
        raise DataError(f"{prefix}{reason}")
