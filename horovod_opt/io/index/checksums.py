"""The crc32c of records, read in full by several threads, each file forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats.read_buffer import BLOCK, ReadBuffer
from horovod_opt.io.formats.unpacked_file import UnpackedFile

THREADS = 16  # each holds a block of 4 MiB
TASK = 64 << 20  # bytes that a thread reads before it takes the next
COST = 64 << 10  # bytes that a record counts for beyond its own: files have to be opened


class Unreadable(NamedTuple):
    """A record, by its row, that cannot be read in full, and why."""

    row: int
    reason: str


class Records(NamedTuple):
    """Of one file, each by its row: where they begin, and their bytes."""

    row: np.ndarray
    offset: np.ndarray
    size: np.ndarray

    @property
    def end(self) -> int:
        return int((self.offset + self.size).max())

    def read(self, buffer: ReadBuffer, crc: np.ndarray) -> list[Unreadable]:
        """Puts their checksums into `crc`; returns those that cannot be read."""
        bad = []
        for row, offset, size in zip(*(column.tolist() for column in self)):
            try:
                crc[row] = buffer.crc32c(offset, size)
            except DataError as error:
                bad.append(Unreadable(row, str(error)))
        return bad


def checksums(paths: Sequence[str], file: np.ndarray, offset: np.ndarray, size: np.ndarray,
              advance: Callable[[int], None], is_packed: Callable[[int], bool] = lambda file: False
              ) -> tuple[np.ndarray, list[Unreadable]]:
    """Checksums of n records (uint32[n]; 0 where unreadable), and those that cannot be read.

    Record i is `size[i]` bytes at `offset[i]` of `paths[file[i]]`, or of the contents of a file
    that `is_packed`, by its number: one thread unpacks it. `advance` is called with numbers of
    bytes, by several threads.
    """
    crc = np.zeros(len(file), np.uint32)
    order = np.lexsort((offset, file))
    ends = np.cumsum(size[order] + COST)
    cuts = np.searchsorted(ends, np.arange(TASK, ends[-1] if len(ends) else 0, TASK))
    is_inside = np.append(True, np.diff(file[order]) == 0)[np.minimum(cuts, len(order) - 1)]
    cuts = [cut for cut, inside in zip(cuts.tolist(), is_inside.tolist())
            if not (inside and is_packed(int(file[order[min(cut, len(order) - 1)]])))]
    tasks = [rows for rows in np.split(order, cuts) if len(rows)]

    def read(rows: np.ndarray) -> list[Unreadable]:
        return [record for of_file in np.split(rows, np.flatnonzero(np.diff(file[rows])) + 1)
                for record in read_file(int(file[of_file[0]]), of_file)]

    def read_file(number: int, rows: np.ndarray) -> list[Unreadable]:
        records, path = Records(rows, offset[rows], size[rows]), paths[number]
        with ExitStack() as stack:
            try:
                packed = stack.enter_context(UnpackedFile(path)) if is_packed(number) else None
                buffer = stack.enter_context(ReadBuffer(path, records.end, BLOCK, packed))
            except DataError as error:
                return [Unreadable(row, str(error)) for row in rows.tolist()]
            bad = records.read(buffer, crc)
        advance(int(records.size.sum()))
        return bad

    with ThreadPoolExecutor(THREADS) as pool:
        bad = [record for records in pool.map(read, tasks) for record in records]
    return crc, sorted(bad)
