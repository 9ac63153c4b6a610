"""The process of a node that reads: it owns the node cache, its threads, and the socket to it."""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from horovod_opt.io.errors import DataError, InputError, ReaderEnded, reader_failed
from horovod_opt.io.index.unpacked_index import UnpackedIndex
from horovod_opt.io.node_reader import layout, lifetime
from horovod_opt.io.node_reader.handover import HandoverServer
from horovod_opt.io.node_reader.hole_log import HoleLog
from horovod_opt.io.node_reader.node_cache import NodeCache, ReaderStats
from horovod_opt.io.node_reader.parcel_reads import AHEAD, ParcelLoads, ParcelRoom, describe

if TYPE_CHECKING:
    from horovod_opt.io.kept.job_memory import JobMemory
    from horovod_opt.io.unpacked.unpacked_store import UnpackedStore

THREADS = 4
LEAVE_CACHED = True  # what is in the page cache is not copied into the node cache
_LOADS_AT_ONCE, _LOADS_TO_CHECK = 64, 8
_MOST_ADDRESSES = 1 << 44  # bytes of the chunk buffers' address space


class Reader:
    """Reads the chunks of an index into a node cache of `memory` bytes for `ranks` ranks of this
    node.

    `chunk_bytes` int64[chunks] is what each chunk takes, from layout.chunk_bytes() where the caller
    does not know it. Steps begin with `start`. Members come by `address`, a secret that only ranks
    of the job are told. The threads run on the cores of the thread that makes the reader.
    `job_memory`: where bytes may come from instead of their files. `unpacked`: the contents of
    compressed files, which go to members with the node cache. `parcels`: what it is fed with takes
    so much, and is no chunks.

    Raises InputError: values that no node cache can have.
    """

    def __init__(self, index, chunk_samples: int, memory: int, ranks: int, threads: int = THREADS,
                 start: int = 0, chunk_bytes: np.ndarray | None = None,
                 job_memory: JobMemory | None = None, unpacked: UnpackedStore | None = None,
                 parcels: ParcelRoom | None = None):
        if threads < 1:
            raise InputError(f"threads={threads}; remedy: at least 1")
        self._unpacked, files = unpacked, ()  # it stays open as long as it is read
        if unpacked is not None:
            index, files = UnpackedIndex(index, unpacked.file), (unpacked.file,)
        self._index, self._chunk_samples = index, chunk_samples
        if chunk_bytes is None:
            chunk_bytes = layout.chunk_bytes(index, chunk_samples)
        self.chunk_bytes = chunk_bytes
        self._ranks = ranks
        self._job_memory, self._needs_checks = job_memory, job_memory is not None
        self._state = threading.Condition()
        self._closing = False
        self._failure: BaseException | None = None
        self._fed: queue.SimpleQueue = queue.SimpleQueue()
        self._forgotten = 0  # how often what was fed before was forgotten
        if parcels is None:
            buffer_bytes = max(int(self.chunk_bytes.max(initial=1)), 1)
            buffers = buffers_for(self.chunk_bytes, memory)
        else:
            buffer_bytes = max(parcels.largest, 1)
            buffers = ranks * max(min(AHEAD, _MOST_ADDRESSES // buffer_bytes // ranks), 1)
        self._cache: NodeCache | None = NodeCache.create(
            ranks, buffers, buffer_bytes, memory, start)
        self._holes = HoleLog.create()
        self._server = HandoverServer((self._cache.file, self._holes.file, *files), ranks,
                                      self._rank_ended)
        self._cache.know_files(index)
        self._cache.start(threads, LEAVE_CACHED, job_memory and job_memory.handle)
        self._feeder = threading.Thread(target=self._feed, name="hio-feed", daemon=True)
        self._feeder.start()
        lifetime.let_go_in_children(self)
        lifetime.close_at_exit(reader=self)

    @property
    def address(self) -> str:
        """What members need to come to the node cache."""
        return self._server.address

    def feed(self, loads) -> None:
        """The next loads, as a rule of an epoch: arrays `chunk`, `first` and `last`, int64[n], in
        the order of `first`, the first step that needs a chunk. `mask`, of the chunks' samples, as
        schedule.Loads has it: others are not read. None: all are.

        Raises InputError, and takes none of them, if the memory is too small for a step, with both
        figures, or their order is wrong.
        """
        self._check()
        chunk, first, last = (np.ascontiguousarray(column, np.int64)
                              for column in (loads.chunk, loads.first, loads.last))
        if len(chunk) and not 0 <= chunk.min() <= chunk.max() < len(self.chunk_bytes):
            raise InputError(f"loads of the chunks {chunk.min()} to {chunk.max()}, of "
                             f"{len(self.chunk_bytes)}")
        self._here().announce(first, last, self.chunk_bytes[chunk])
        self.feed_pieces(iter([loads]))

    def feed_pieces(self, pieces: Iterator, number: int = -1, are_again: bool = False) -> None:
        """The same in pieces, each taken when the ones before it have been begun: by a thread, so
        that no rank waits for what another rank does. What is wrong with them ends the reading: of
        all ranks of the node, with a DataError that says it. Loads are numbered from `number` on;
        -1: on from the last one. `are_again`: the job has read them before."""
        self._check()
        self._here()
        self._fed.put((self._forgotten, number, are_again, pieces))

    def forget(self) -> None:
        """What was fed is not needed any more, and all ranks skip its steps."""
        self._forgotten += 1

    def stats(self) -> ReaderStats:
        """What has been read until now."""
        return self._here().reader_stats()

    def close(self) -> None:
        """Ends the reading when all ranks have left, which may be at once; until then it goes on in
        the background, for ranks that are a step behind."""
        with self._state:
            self._closing = True
        if self._all_have_left():
            self.stop()

    def stop(self) -> None:
        """Ends it now: ranks that still wait raise ReaderEnded."""
        with self._state:
            if self._cache is None:
                return
            cache, self._cache = self._cache, None
            # They end when nobody has them, and this object may stay long.
            self._job_memory = None
            self._state.notify_all()
        cache.end()
        self._fed.put(None)
        if threading.current_thread() is not self._feeder:
            self._feeder.join()
        self._server.close()
        self._holes.close()
        cache.close()
        self._unpacked = None

    def wait(self, seconds: float) -> bool:
        """After close(): until it has ended, but no longer than this. Whether it has."""
        with self._state:
            return self._state.wait_for(lambda: self._cache is None, max(seconds, 0))

    def let_go(self) -> None:
        """In a forked process: the reader is the other one."""
        self._cache = None
        self._state = threading.Condition()

    def _here(self) -> NodeCache:
        cache = self._cache
        if cache is None:
            raise ReaderEnded("the node's reader is closed, or was opened before this process was "
                              "forked; remedy: open it here")
        return cache

    def _check(self) -> None:
        """Raises what every rank of the node does that waits in the node cache."""
        if self._failure is not None:
            raise reader_failed(_reason(self._failure)) from self._failure

    def _all_have_left(self) -> bool:
        with self._state:  # until it has looked, no other thread frees the node cache
            cache = self._cache
            return cache is None or all(cache.has_left(rank) for rank in range(self._ranks))

    def _rank_ended(self, rank: int) -> None:
        """Called by the thread that sees connections end."""
        with self._state:
            cache, closing = self._cache, self._closing
            if cache is not None and not cache.has_left(rank):
                cache.end(dead_rank=rank)
                return
        if closing and self._all_have_left():
            self.stop()

    def _feed(self) -> None:
        cache = self._here()
        try:
            for forgotten, number, are_again, pieces in iter(self._fed.get, None):
                while forgotten == self._forgotten and (loads := next(pieces, None)) is not None:
                    self._add(cache, loads, number, forgotten, are_again)
                    number += len(loads.chunk) if number >= 0 else 0
        except BaseException as error:
            self._failure = error
            if cache is self._cache:  # not stopped: nobody may wait for what will not come
                cache.fail(_reason(error))

    def _add(self, cache: NodeCache, loads, number: int, forgotten: int, are_again: bool) -> None:
        if isinstance(loads, ParcelLoads):
            self._add_parcels(cache, loads, number, forgotten, are_again)
            return
        chunk, first, last = (np.ascontiguousarray(column, np.int64)
                              for column in (loads.chunk, loads.first, loads.last))
        rest = loads.mask
        at_once = _LOADS_TO_CHECK if self._needs_checks else _LOADS_AT_ONCE
        for begin in range(0, len(chunk), at_once):
            if forgotten != self._forgotten:
                return
            part, mask = slice(begin, begin + at_once), None
            if rest is not None:
                counts = layout.counts_of(chunk[part], self._chunk_samples,
                                          len(self._index.offset))
                mask, rest = np.split(rest, [counts.sum()])
            extents, places = layout.extents_of_chunks(self._index, self._chunk_samples,
                                                       chunk[part], mask)
            checks = layout.checks_of(self._index, self._chunk_samples, chunk[part], places,
                                      mask) if self._needs_checks else None
            cache.add(number + begin if number >= 0 else -1, chunk[part], first[part], last[part],
                      extents, checks, are_again)

    def _add_parcels(self, cache: NodeCache, loads: ParcelLoads, number: int, forgotten: int,
                     are_again: bool) -> None:
        for begin in range(0, len(loads.chunk), _LOADS_TO_CHECK):
            if forgotten != self._forgotten:
                return
            part = slice(begin, begin + _LOADS_TO_CHECK)
            extents, checks, origins = describe(self._index, loads, part, self._job_memory)
            cache.add(number + begin, loads.chunk[part], loads.first[part], loads.last[part],
                      extents, checks, are_again, origins)


def buffers_for(chunk_bytes: np.ndarray, memory: int) -> int:
    """So many that `memory` runs out before chunk buffers do: of the smallest chunks, each twice,
    as at the border of two epochs; and that their addresses can be had."""
    smallest = np.cumsum(np.repeat(np.sort(chunk_bytes), 2))
    buffers = int(np.searchsorted(smallest, memory, side="right")) + 1
    return max(min(buffers, _MOST_ADDRESSES // max(int(chunk_bytes.max(initial=1)), 1)), 1)


def _reason(error: BaseException) -> str:
    """For other processes, which see neither type nor traceback; texts of this package have a
    remedy."""
    if isinstance(error, DataError):
        return str(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return (f"{type(error).__name__}: {error} ({where.filename}, line {where.lineno}); remedy: "
            "remove its cause and start again from the last state")
