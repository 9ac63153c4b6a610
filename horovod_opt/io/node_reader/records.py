"""The records of a step that a rank has taken: their bytes, and what became of each."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import NamedTuple

import numpy as np

from horovod_opt.io import native
from horovod_opt.io.native_table import Python, RecordStatus

GOOD, CHECKSUM, TRUNCATED, CHANGED = map(int, RecordStatus)
# What becomes of data: bad="skip" leaves it out. All else, such as a lack of descriptors or a file
# that was removed or replaced, says nothing of the record.
DAMAGES = (CHECKSUM, TRUNCATED, errno.EIO)
_REASONS = {
    CHECKSUM: "its checksum is not the one that was indexed",
    TRUNCATED: "its file ends before it does",
    CHANGED: "its file has another size or time of change than when it was indexed",
}
_python = Python(*(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
                   for name in ("PyList_New", "PyList_SetItem", "PyBytes_FromStringAndSize",
                                "PyBytes_AsString", "Py_DecRef")))


def reason(status: int) -> str:
    """In words; "" for a good one."""
    return "" if status == GOOD else _REASONS.get(status) or os.strerror(status)


def describe(index, sample: int, part: int, status: int) -> str:
    """File, offset, key and reason of a record that is not good, and what to do."""
    file, offset = int(index.file[sample, part]), int(index.offset[sample, part])
    key = index.key(sample)
    name = f"sample {sample}" + (f" ({key})" if key else "")
    if status in (errno.EMFILE, errno.ENFILE):
        remedy = "raise ulimit -n, or close what the process has open"
    elif status > 0 and status != errno.EIO:
        remedy = "make the file readable for all ranks, as it was when the job began"
    else:
        remedy = ("look at it with horovod-opt io verify, or rebuild the index of files that were "
                  "meant to change with horovod-opt io index --rebuild")
    return f"{index.path(file)}, offset {offset}, {name}: {reason(status)}; remedy: {remedy}"


def all_good(status: np.ndarray) -> np.ndarray:
    """Which samples are good in all parts: bool[k], of int32[k, P]."""
    return (status == GOOD).all(axis=1)


class StepBytes(NamedTuple):
    """`samples` int64[k]: their numbers; `data`: their bytes; `status` int32[k, 1] (RecordStatus);
    `is_good`: all are."""

    samples: np.ndarray
    data: list[bytes]
    status: np.ndarray
    is_good: bool

    @property
    def good(self) -> np.ndarray:
        """Which samples are good: bool[k]."""
        return all_good(self.status)


class StepRecords:
    """`samples` int64[k]: their numbers. `size` int64[k, P] and `status` int32[k, P]
    (RecordStatus): of each part. Its bytes are `buffer[begin[i, p]:begin[i, p] + size[i, p]]`,
    uint8; nothing else is in the buffer, and sample comes after sample, part after part. `is_good`:
    all are. `are_equal`: samples are known to be of equal sizes."""

    __slots__ = ("are_equal", "begin", "buffer", "is_good", "samples", "size", "status", "step")

    def __init__(self, step: int, samples: np.ndarray, buffer: np.ndarray, begin: np.ndarray,
                 size: np.ndarray, status: np.ndarray, is_good: bool, are_equal: bool):
        self.step, self.samples, self.buffer = step, samples, buffer
        self.begin, self.size, self.status = begin, size, status
        self.is_good, self.are_equal = is_good, are_equal

    def __len__(self) -> int:
        return len(self.samples)

    def part(self, i: int, part: int = 0) -> memoryview:
        """The bytes of a part of the i-th sample; whatever its status is."""
        begin = int(self.begin[i, part])
        return memoryview(self.buffer)[begin:begin + int(self.size[i, part])]

    def parts(self, i: int) -> tuple[memoryview, ...]:
        """All parts of the i-th sample."""
        return tuple(self.part(i, part) for part in range(self.size.shape[1]))

    @property
    def good(self) -> np.ndarray:
        """Which samples are good in all parts: bool[k]."""
        return all_good(self.status)


def new_byte_lists(ends: np.ndarray, sizes: np.ndarray, places: np.ndarray) -> list[list[bytes]]:
    """Lists, the i-th of which has bytes objects of `sizes` before ends[i]; int64, contiguous. They
    are not filled in: `places`, int64 of as many elements as sizes, gets the addresses to write
    to, which may be done until somebody else is given the objects. So C++ fills them in, and no
    sample is copied once more for Python."""
    return native.with_lock().hio_byte_lists(
        _python, len(ends), ends.ctypes.data, sizes.ctypes.data, places.ctypes.data)
