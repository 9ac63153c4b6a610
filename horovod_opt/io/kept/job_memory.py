"""A node's part of the job's memory: the chunks that it keeps, what serves them, and threads that
read what is wanted."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from horovod_opt.io import native, native_table, totals
from horovod_opt.io.errors import DataError
from horovod_opt.io.kept.chunk_places import ChunkPlaces
from horovod_opt.io.kept.kept_place import KeptPlace
from horovod_opt.io.native_table import Code, MemoryEvent
from horovod_opt.io.node_reader import layout, lifetime
from horovod_opt.io.node_reader.node_cache import loads_for_c
from horovod_opt.io.node_reader.record_request import address_of
from horovod_opt.io.progress import say

if TYPE_CHECKING:
    from horovod_opt.io.index import Index

# That read what others ask for; each has a buffer for a chunk, beside what `open` was told.
FILLERS = 2
_FINGERPRINT_BYTES = 16  # what peer_frames.h has room for


class JobMemory:
    """Of the process of a node that reads. Chunks are those of `index` of `chunk_samples`
    samples each, of `chunk_bytes` (int64[chunks]).

    It outlives loaders. Its memory is freed by close(), when nobody has it any more, and with its
    process. Raises DataError if the file for it cannot be made.
    """

    def __init__(self, index: Index, chunk_samples: int, chunk_bytes: np.ndarray, place: KeptPlace):
        self.place, self._chunk_samples, self._index = place, chunk_samples, index
        self.chunk_bytes = np.ascontiguousarray(chunk_bytes, np.int64)
        self.is_home = np.zeros(len(chunk_bytes), bool)
        self._places: ChunkPlaces | None = None
        self.address = ""  # "host port secret", where others are answered
        self._addresses: Sequence[str] = ()  # of all nodes
        self._lib = native.library()
        files = index.files
        columns = (np.ascontiguousarray(files.names.blob, np.uint8),
                   *(np.ascontiguousarray(column, np.int64)
                     for column in (files.names.ends, files.sizes, files.mtimes_ns)))
        handle = self._lib.hio_memory_create(
            len(self.chunk_bytes), address_of(self.chunk_bytes),
            os.fsencode(place.folder) if place.folder else None,
            fingerprint_of(index, chunk_samples), os.fsencode(index.root), len(columns[1]),
            *map(address_of, columns))
        if not handle:
            raise DataError(f"cache={place.bytes}: {native.error()}")
        self._handle = _Handle(handle)
        self._number = totals.add(self.publish)
        self._last: dict[str, float] = {}
        self._lock = threading.Lock()
        for _ in range(FILLERS):
            threading.Thread(target=_fill, name="hio-keep", daemon=True,
                             args=(self._handle, index, chunk_samples, columns,
                                   weakref.ref(self))).start()
        self._end = lifetime.end_when_dropped(self, _end, self._handle, self._number, self._last)
        lifetime.close_at_exit(member=self)

    def is_of(self, index: Index, chunk_samples: int) -> bool:
        """Whether it keeps these chunks."""
        return (not self.is_closed and chunk_samples == self._chunk_samples
                and fingerprint_of(index, chunk_samples) == fingerprint_of(
                    self._index, self._chunk_samples))

    @property
    def handle(self) -> int:
        """For a node cache."""
        return self._handle.number

    @property
    def is_closed(self) -> bool:
        return not self._end.alive

    def serve(self, host: str, secret: str) -> None:
        """Has it answer at this address of the node, unless it does already."""
        if self.address.partition(" ")[0] == host:
            return
        port = self._lib.hio_memory_serve(self.handle, host.encode(), secret.encode())
        if port == Code.FAILED:
            raise DataError(f"cache={self.place.bytes}: {native.error()}")
        self.address = f"{host} {port} {secret}"

    def want_all(self) -> None:
        """All that has its home here is read, in the order of the data, before anybody asks."""
        if self._lib.hio_memory_want_all(self.handle):
            raise DataError(native.error())

    def origins_of(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the parts of samples (int64[k]): their chunks and places in these, int64[k, P]
        each."""
        if self._places is None:
            self._places = ChunkPlaces(self._index, self._chunk_samples)
        places = self._places.of(samples)
        chunk = samples // self._chunk_samples
        return np.broadcast_to(chunk[:, np.newaxis], places.shape), places

    def set_homes(self, homes: np.ndarray, number: int, addresses: Sequence[str]) -> None:
        """By chunk, int32[chunks]; this is node `number`. `addresses`: "host port secret" of
        each."""
        self._addresses = addresses
        if self._lib.hio_memory_set_homes(self.handle, homes.ctypes.data, number, len(addresses),
                                          "\n".join(addresses).encode()):
            raise DataError(native.error())
        self.is_home = homes == number

    def stats(self) -> dict[str, float]:
        """See Data.stats()."""
        with self._lock:
            if not self.is_closed:
                self._last.update(self._handle.stats())
            return dict(self._last)

    def publish(self) -> None:
        """Brings horovod_opt.stats() up to date."""
        totals.publish(self._number, self.stats())

    def close(self) -> None:
        """Nothing is kept or served any more; loaders go on with storage."""
        with self._lock:
            self._end.now()

    def node_name(self, number: int) -> str:
        """Of another node, for messages."""
        host, port, _ = self._addresses[number].split(" ")
        return f"node {number} ({host} port {port})"


def fingerprint_of(index: Index, chunk_samples: int) -> bytes:
    """Equal where chunks of the same number are the same bytes."""
    state = blake2b(digest_size=_FINGERPRINT_BYTES, person=b"horovod-opt.io")
    for piece in (index.digest, chunk_samples.to_bytes(8, "little")):
        state.update(piece)
    return state.digest()


class _Handle:
    """C's, of one process: stopped once, and freed when no thread uses it any more."""

    def __init__(self, number: int):
        self._lib = native.library()
        self.number = number
        lifetime.let_go_in_children(self)

    def stop(self) -> None:
        if self.number:
            self._lib.hio_memory_stop(self.number)

    def stats(self) -> dict[str, float]:
        now = native_table.MemoryCounters()
        if self.number:
            self._lib.hio_memory_counters(self.number, now)
        return {"kept_bytes": now.kept_bytes, "peer_bytes": now.peer_bytes,
                "peer_requests": now.peer_requests, "served_bytes": now.served_bytes,
                "fallback_bytes": now.fallback_bytes, "node_bytes_read": now.bytes_read,
                "node_requests": now.requests}

    def let_go(self) -> None:
        """In a forked process, which has none of the threads."""
        if self.number:
            self._lib.hio_memory_forget(self.number)
        self.number = 0

    def __del__(self) -> None:
        if self.number:
            self._lib.hio_memory_free(self.number)


def _end(handle: _Handle, number: int, last: dict[str, float]) -> None:
    last.update(handle.stats(), kept_bytes=0)
    handle.stop()
    totals.end(number, last)


def _fill(handle: _Handle, index: Index, chunk_samples: int, columns: tuple,
          memory: weakref.ref[JobMemory]) -> None:
    """A thread: reads chunks that are wanted, and says what has gone wrong. `columns` stay as long
    as it does."""
    notice = native_table.MemoryNotice()
    lib = native.library()
    while lib.hio_memory_wait(handle.number, notice) == Code.OK:
        if notice.kind == MemoryEvent.STOPPED:
            return
        if notice.kind == MemoryEvent.WANTED:
            chunk = np.array([notice.number], np.int64)
            try:
                extents, places = layout.extents_of_chunks(index, chunk_samples, chunk)
                checks = layout.checks_of(index, chunk_samples, chunk, places)
                step = np.zeros(1, np.int64)
                code = lib.hio_memory_fill(handle.number, ctypes.byref(
                    loads_for_c(-1, chunk, step, step, extents, checks)))
            except BaseException:
                code = Code.FAILED
            if code != Code.OK:
                lib.hio_memory_refuse(handle.number, notice.number)
            continue
        _say(memory(), notice)


def _say(memory: JobMemory | None, notice: native_table.MemoryNotice) -> None:
    why = notice.why.decode(errors="replace")
    if memory is None or not why:  # it has ended as it should
        return
    if notice.kind == MemoryEvent.LOST:
        say(f"{memory.node_name(notice.number)} is lost to the job's memory: {why}; what it keeps "
            "is read from storage until the next loader is made")
    else:
        where = f"cache_in={memory.place.folder!r}" if memory.place.folder else "memory"
        say(f"chunk {notice.number} cannot be kept in {where}: {why}; what has no room is read "
            "from storage each time")
