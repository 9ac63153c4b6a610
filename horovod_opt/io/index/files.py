"""The files of a data set as they were when it was indexed, and what has changed since."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import lmdb_file
from horovod_opt.io.formats.columns import Texts
from horovod_opt.io.formats.read_buffer import cannot_read

THREADS = 32  # that ask for sizes: on a parallel file system it is the answers that take time
AT_ONCE = 256  # files that a thread asks for


class File(NamedTuple):
    """Name relative to the data set's root, size in bytes, time of change in nanoseconds."""

    name: str
    size: int
    mtime_ns: int


class Files(Sequence):
    """Names, `sizes` (int64[files]) and `mtimes_ns` (int64[files]), in the order of the names."""

    def __init__(self, names: Texts, sizes: np.ndarray, mtimes_ns: np.ndarray):
        self.names = names
        self.sizes = sizes
        self.mtimes_ns = mtimes_ns

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> File:
        return File(self.names.raw(i).decode(), int(self.sizes[i]), int(self.mtimes_ns[i]))


class Change(NamedTuple):
    """A file that is not as it was indexed; `reason` has both values."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def stat_files(root: str, names: Sequence[str]) -> Files:
    """The files as they are. Raises DataError for one that cannot be read or is none."""
    sizes, mtimes = [], []
    for name, status in zip(names, _statuses(root, names)):
        if isinstance(status, OSError):
            raise cannot_read(os.path.join(root, name), status)
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{os.path.join(root, name)}: not a file; remedy: leave it out of the "
                            "pattern")
        sizes.append(status.st_size)
        mtimes.append(status.st_mtime_ns)
    return Files(Texts.of(name.encode() for name in names), np.array(sizes, np.int64),
                 np.array(mtimes, np.int64))


def find_changes(root: str, files: Files, transactions: Sequence[int] = ()) -> list[Change]:
    """Which files differ now in size, time of change, or LMDB's last transaction."""
    changes = []
    for file, status in zip(files, _statuses(root, files.names.strings())):
        if isinstance(status, OSError):
            changes.append(Change(file.name, f"cannot be read: {status.strerror}"))
        elif status.st_size != file.size:
            changes.append(Change(file.name, f"size {file.size} when indexed, now "
                                  f"{status.st_size}"))
        elif status.st_mtime_ns != file.mtime_ns:
            changes.append(Change(file.name, "written at {} when indexed, now at {}".format(
                *show_times(file.mtime_ns, status.st_mtime_ns))))
    return changes or list(_find_commits(root, files, transactions))


def show_times(*times_ns: int) -> list[str]:
    """Dates and times, with parts of seconds only where they differ in nothing else."""
    seconds = [time_ns // 10**9 for time_ns in times_ns]
    are_alike = len(set(seconds)) < len(seconds)
    return [time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(second))
            + (f".{time_ns % 10**9:09d}" if are_alike else "") + " UTC"
            for second, time_ns in zip(seconds, times_ns)]


def _find_commits(root: str, files: Files, transactions: Sequence[int]) -> Iterator[Change]:
    """A program that maps an LMDB file writes without changing its time at once."""
    for file, indexed in zip(files, transactions):
        last = lmdb_file.last_transaction(os.path.join(root, file.name))
        if last != indexed:
            yield Change(file.name, f"last transaction {indexed} when indexed, now {last}: "
                         "written during the job")


def _statuses(root: str, names: Sequence[str]) -> Iterable[os.stat_result | OSError]:
    """In the order of the names."""
    groups = [names[first:first + AT_ONCE] for first in range(0, len(names), AT_ONCE)]
    with ThreadPoolExecutor(min(THREADS, len(groups)) or 1) as pool:
        answers = pool.map(lambda group: [_status(root, name) for name in group], groups)
        return [status for group in answers for status in group]


def _status(root: str, name: str) -> os.stat_result | OSError:
    path = os.path.join(root, name)
    try:
        status = os.stat(path)
    except OSError as error:
        return error
    if _may_read(status) or os.access(path, os.R_OK, effective_ids=True):
        return status
    return PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _may_read(status: os.stat_result) -> bool:
    """By the mode, which is known already; asking costs a request on some file systems."""
    if os.geteuid() == status.st_uid:
        return bool(status.st_mode & stat.S_IRUSR)
    if status.st_gid == os.getegid() or status.st_gid in os.getgroups():
        return bool(status.st_mode & stat.S_IRGRP)
    return bool(status.st_mode & stat.S_IROTH)
