"""The crc32c of records, read in full by several threads, each file forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple

import numpy as np

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats.read_buffer import ReadBuffer

THREADS = 16  # each holds a block of 4 MiB
TASK = 64 << 20  # bytes that a thread reads before it takes the next
COST = 64 << 10  # bytes that a record counts for beyond its own: files have to be opened


class Unreadable(NamedTuple):
    """A record, by its row, that cannot be read in full, and why."""

    row: int
    reason: str


def checksums(paths: Sequence[str], file: np.ndarray, offset: np.ndarray, size: np.ndarray,
              advance: Callable[[int], None]) -> tuple[np.ndarray, list[Unreadable]]:
    """Checksums of n records (uint32[n]; 0 where unreadable), and those that cannot be read.

    Record i is `size[i]` bytes at `offset[i]` of `paths[file[i]]`. `advance` is called with
    numbers of bytes, by several threads.
    """
    crc = np.zeros(len(file), np.uint32)
    order = np.lexsort((offset, file))
    ends = np.cumsum(size[order] + COST)
    cuts = np.searchsorted(ends, np.arange(TASK, ends[-1] if len(ends) else 0, TASK))
    tasks = [rows for rows in np.split(order, cuts) if len(rows)]

    def read(rows: np.ndarray) -> list[Unreadable]:
        return _read(paths, rows, file, offset, size, crc, advance)

    with ThreadPoolExecutor(THREADS) as pool:
        bad = [record for records in pool.map(read, tasks) for record in records]
    return crc, sorted(bad)


def _read(paths: Sequence[str], rows: np.ndarray, file: np.ndarray, offset: np.ndarray,
          size: np.ndarray, crc: np.ndarray, advance: Callable[[int], None]) -> list[Unreadable]:
    bad = []
    for of_file in np.split(rows, np.flatnonzero(np.diff(file[rows])) + 1):
        try:
            buffer = ReadBuffer(paths[file[of_file[0]]],
                                int((offset[of_file] + size[of_file]).max()))
        except DataError as error:
            bad += [Unreadable(int(row), str(error)) for row in of_file]
            continue
        with closing(buffer):
            for row, at, length in zip(of_file.tolist(), offset[of_file].tolist(),
                                       size[of_file].tolist()):
                try:
                    crc[row] = buffer.crc32c(at, length)
                except DataError as error:
                    bad.append(Unreadable(row, str(error)))
        advance(int(size[of_file].sum()))
    return bad
