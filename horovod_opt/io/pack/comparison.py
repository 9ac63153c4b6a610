"""A pack beside its index, and beside the files that it was made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import compression, pack_folder
from horovod_opt.io.formats.read_buffer import BLOCK, ReadBuffer
from horovod_opt.io.index import pack_index
from horovod_opt.io.index.files import show_times
from horovod_opt.io.index.pack_index import PackIndex
from horovod_opt.io.native import crc32c
from horovod_opt.io.pack.contents import Reader
from horovod_opt.io.pack.listing import Listing
from horovod_opt.io.progress import Meter, ProgressFunction

THREADS = 8  # that read a tar each


def compare(listing: Listing, out: Path, progress: ProgressFunction | None = None) -> list[str]:
    """What is wrong, a line each: bytes of the pack that are not what was packed, and originals
    that are not as they were. All tars are read, and originals with another time."""
    index = pack_index.read(out / pack_folder.NAME)
    meter = Meter(progress, int(index.file_sizes.sum()))
    with ThreadPoolExecutor(THREADS) as pool:
        parts = pool.map(lambda k: list(check_part(index, out, k, meter.advance)),
                         range(len(index.names)))
        lines = [line for part in parts for line in part]
    meter.finish()
    return [*lines, *_changes(index, listing, out)]


def check_part(index: PackIndex, out: Path, k: int, advance: Callable[[int], None]
               ) -> Iterator[str]:
    """What is wrong in a tar."""
    path, size = out / index.names[k], int(index.file_sizes[k])
    first, end = np.searchsorted(index.file, (k, k + 1)).tolist()
    found, whole, position = 0, 0, 0
    try:
        if path.stat().st_size != size:
            raise DataError(f"{path}: size {size} when packed, now {path.stat().st_size}")
        with ReadBuffer(str(path), size) as buffer:
            for row in range(first, end):
                offset, stored = int(index.offset[row]), int(index.size[row])
                whole, _ = _sum(buffer, position, offset, whole)
                whole, crc = _sum(buffer, offset, offset + stored, whole)
                position = offset + stored
                if crc != index.crc[row]:
                    found += 1
                    yield (f"{path}: byte {offset}, {index.paths[row]!r}: checksum "
                           f"{index.crc[row]:08x} in the index, {crc:08x} of what is read")
            whole, _ = _sum(buffer, position, size, whole)
        advance(size)
        if not found and whole != index.file_crcs[k]:
            yield (f"{path}: between its files something is not as it was packed: checksum "
                   f"{index.file_crcs[k]:08x} in the index, {whole:08x} of what is read")
    except OSError as error:
        yield f"{path}: {error.strerror}"
    except DataError as error:
        yield str(error)


def _sum(buffer: ReadBuffer, begin: int, end: int, whole: int) -> tuple[int, int]:
    """Checksums of what `whole` is of and these bytes, and of these bytes."""
    own = 0
    while begin < end:
        piece = buffer.take(begin, min(end - begin, BLOCK))
        whole, own = crc32c(piece, whole), crc32c(piece, own)
        begin += len(piece)
    return whole, own


def _changes(index: PackIndex, listing: Listing, out: Path) -> Iterator[str]:
    rows = {path: row for row, path in enumerate(index.paths.strings())}
    reader = Reader(listing, None, 1)
    for i, path in enumerate(listing.paths):
        row = rows.pop(path, None)
        if row is None:
            yield f"{path}: not in the pack"
        elif listing.sizes[i] != index.raw_size[row]:
            yield f"{path}: size {index.raw_size[row]} when packed, now {listing.sizes[i]}"
        elif listing.mtimes_ns[i] != index.mtime[row] and (
                _crc_of(reader, i) != _packed_crc(index, out, row)):
            yield "{}: written at {} when packed, now at {}".format(
                path, *show_times(int(index.mtime[row]), listing.mtimes_ns[i]))
    yield from (f"{path}: in the pack, but no longer among the originals" for path in rows)


def _crc_of(reader: Reader, file: int) -> int:
    crc = 0
    for piece in reader.pieces(file):
        crc = crc32c(piece, crc)
    return crc


def _packed_crc(index: PackIndex, out: Path, row: int) -> int | None:
    """Of a file as it was; None where the pack cannot say, which is a line of its own."""
    if index.size[row] == index.raw_size[row]:
        return int(index.crc[row])
    path = os.fspath(out / index.names[index.file[row]])
    try:
        with ReadBuffer(path, int(index.offset[row] + index.size[row])) as buffer:
            frame = buffer.take(int(index.offset[row]), int(index.size[row]))
        return crc32c(compression.expand(frame, int(index.raw_size[row]), index.paths[row]))
    except DataError:
        return None
