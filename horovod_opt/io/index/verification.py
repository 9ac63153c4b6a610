"""Reads a whole data set and compares it with its index."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np

from horovod_opt.io import formats
from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import lmdb_file, tar, tfrecord
from horovod_opt.io.formats.unpacked_file import UnpackedFile
from horovod_opt.io.index.checksums import checksums
from horovod_opt.io.index.data_index import Index
from horovod_opt.io.index.files import find_changes
from horovod_opt.io.progress import Meter, ProgressFunction

THREADS = 16  # that scan a file each


def verify(index: Index, progress: ProgressFunction | None = None) -> list[str]:
    """What is wrong: a line for each record, with file, byte, key and reason; for each file whose
    structure is no longer that of the index; and for each file that changed meanwhile."""
    paths = [os.path.join(index.root, name) for name in index.files.names.strings()]
    meter = Meter(progress, int(index.size.sum()))
    file, offset, size = (column.reshape(-1) for column in (index.file, index.offset, index.size))
    crc, unreadable = checksums(paths, file, offset, size, meter.advance, index.is_packed)
    wrong = {row: reason for row, reason in unreadable}
    if index.crc is not None:
        for row in np.flatnonzero(crc != index.crc.reshape(-1)).tolist():
            wrong.setdefault(row, f"checksum {index.crc.reshape(-1)[row]:08x} in the index, "
                                  f"{crc[row]:08x} of what is read")
    lines = [f"{paths[file[row]]}: byte {offset[row]}{_name(index, row)}: {wrong[row]}"
             for row in sorted(wrong)]
    meter.finish()
    return [*lines, *_structure(index, paths),
            *(str(change) for change in find_changes(index.root, index.files, index.transactions))]


def _name(index: Index, row: int) -> str:
    sample, part = divmod(row, len(index.parts))
    key, name = index.key(sample), index.parts[part]
    return "".join((f", sample {sample}", f" {key!r}" if key else "",
                    f", part {name!r}" if name else ""))


def _structure(index: Index, paths: Sequence[str]) -> Iterator[str]:
    """What lies between the records: lengths, headers, pages."""
    scan = _scanner(index)
    if scan is None:
        return
    starts = np.searchsorted(index.file[:, 0], np.arange(len(paths) + 1))

    def check(i: int) -> str | None:
        try:
            with UnpackedFile(paths[i]) if index.is_packed(i) else nullcontext() as packed:
                file_scan = scan(paths[i], int(index.lengths[i]), packed)
        except DataError as error:
            return str(error)
        rows = slice(starts[i], starts[i + 1])
        same = set(file_scan.parts) <= set(index.parts) and len(file_scan.offset) == (
            rows.stop - rows.start)
        if same and len(file_scan.offset):
            file_scan = file_scan.with_parts(index.parts)
            same = (np.array_equal(file_scan.offset, index.offset[rows])
                    and np.array_equal(file_scan.size, index.size[rows]))
        return None if same else (f"{paths[i]}: its records are not where the index has them; "
                                  "remedy: horovod-opt io index --rebuild")

    with ThreadPoolExecutor(THREADS) as pool:
        yield from filter(None, pool.map(check, range(len(paths))))


def _scanner(index: Index) -> Callable | None:
    if index.format == formats.TFRECORD:
        return lambda path, size, packed: tfrecord.scan(
            path, size, False, lambda count: None, bool(index.truncated), packed)
    if index.format == formats.TAR:
        return lambda path, size, packed: tar.scan(path, size, bool(index.truncated), packed)
    if index.format == formats.LMDB:
        return lambda path, size, packed: lmdb_file.scan(path)[0]
    return None
