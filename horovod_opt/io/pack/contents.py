"""The bytes that go into the tars, read and compressed ahead by threads, in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import compression
from horovod_opt.io.formats.read_buffer import cannot_read
from horovod_opt.io.native import crc32c
from horovod_opt.io.pack.listing import Listing, Place

AHEAD_BYTES = 128 << 20  # that are read, or being read, and not yet written
AHEAD_FILES = 4096
LARGE = 16 << 20  # a file from there on is copied piece by piece, when its turn comes
PIECE = 4 << 20  # bytes


class Content(NamedTuple):
    """What a file has in the tar; `data` None: it is large, to be copied."""

    file: int
    data: bytes | None
    crc: int = 0


class Reader:
    """Of the files of a listing; `level`: of zstd, or None; files named in `plain` are never
    compressed."""

    def __init__(self, listing: Listing, level: int | None, threads: int):
        self._listing, self._level, self._threads = listing, level, threads
        self._names = set(listing.paths) if level is not None else set()

    def may_compress(self, file: int) -> bool:
        """Not where the name that it would get in the tar is another file's."""
        return self._level is not None and (
            self._listing.paths[file] + compression.SUFFIX not in self._names)

    def contents(self, files: Iterable[int]) -> Iterator[Content]:
        """In order. Raises DataError for what cannot be read, or was changed since it was listed.
        """
        pending: deque[tuple[Future, int]] = deque()
        ahead = 0
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                for file in files:
                    size = self._listing.sizes[file]
                    size = 0 if size >= LARGE else size
                    while pending and (ahead + size > AHEAD_BYTES or len(pending) >= AHEAD_FILES):
                        content, done = pending.popleft()
                        yield content.result()
                        ahead -= done
                    pending.append((pool.submit(self._read, file), size))
                    ahead += size
                while pending:
                    yield pending.popleft()[0].result()
            finally:
                for content, _ in pending:
                    content.cancel()

    def _read(self, file: int) -> Content:
        if self._listing.sizes[file] >= LARGE:
            return Content(file, None)
        data = b"".join(self.pieces(file))
        if self.may_compress(file):
            data = compression.compress(data, self._level) or data
        return Content(file, data, crc32c(data))

    def compress_into(self, file: int, target: BinaryIO) -> int:
        """A large file, compressed; returns its size then."""
        import zstandard

        compressor = zstandard.ZstdCompressor(level=self._level, write_checksum=True)
        frame = compressor.compressobj(size=self._listing.sizes[file])
        for piece in self.pieces(file):
            target.write(frame.compress(piece))
        target.write(frame.flush())
        return target.tell()

    def pieces(self, file: int) -> Iterator[bytes]:
        """Of a file as it is. Raises DataError as `contents` does."""
        place, rest = self._listing.place(file), self._listing.sizes[file]
        offset = place.offset
        with opened(place) as source:
            while rest:
                try:
                    piece = os.pread(source, min(rest, PIECE), offset)
                except OSError as error:
                    raise cannot_read(place.path, error, offset) from error
                if not piece:
                    raise changed(place)
                rest -= len(piece)
                offset += len(piece)
                yield piece
            status = os.fstat(source)
            if (status.st_size, status.st_mtime_ns) != place.status:
                raise changed(place)


@contextmanager
def opened(place: Place) -> Iterator[int]:
    """Its descriptor."""
    try:
        source = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise cannot_read(place.path, error) from error
    try:
        yield source
    finally:
        os.close(source)


def changed(place: Place) -> DataError:
    return DataError(f"{place.path}: it changed while it was packed; remedy: end its writers "
                     "first, then start the same command again")
