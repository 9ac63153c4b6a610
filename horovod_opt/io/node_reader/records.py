"""The samples of a step that a rank has taken."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from horovod_opt.io.node_reader.statuses import GOOD


def all_good(status: np.ndarray) -> np.ndarray:
    """Which samples are good in all parts: bool[k], of int32[k, P]."""
    return (status == GOOD).all(axis=1)


class TakenBytes(NamedTuple):
    """`samples` int64[k]: their numbers; `data`: their bytes; `status` int32[k, 1] (statuses.py);
    `is_good`: all are."""

    samples: np.ndarray
    data: list[bytes]
    status: np.ndarray
    is_good: bool

    @property
    def good(self) -> np.ndarray:
        """Which samples are good: bool[k]."""
        return all_good(self.status)


class Taken:
    """`samples` int64[k]: their numbers. `size` int64[k, P] and `status` int32[k, P] (statuses.py):
    of each part. Its bytes are `buffer[begin[i, p]:begin[i, p] + size[i, p]]`, uint8; nothing else
    is in the buffer, and sample comes after sample, part after part. `is_good`: all are.
    `are_equal`: samples are known to be of equal sizes."""

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
