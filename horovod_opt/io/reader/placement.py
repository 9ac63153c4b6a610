"""In which load, and where in its slot, a rank finds the samples of some steps."""

from __future__ import annotations

import numpy as np

from horovod_opt.io.errors import InputError
from horovod_opt.io.reader.layout import extents_of_chunks


class Placement:
    """Of loads that belong together, as a rule those of an epoch.

    `number` is the first load's; load `number + i` brings chunk `chunk[i]`, for steps `first[i]` to
    `last[i]` (int64[loads]). Where a chunk is one extent, as in most formats, all its parts are
    shifted alike, and one number is kept of it; else the place of each part, while it is needed.
    """

    def __init__(self, index, chunk_samples: int, number: int, chunk: np.ndarray,
                 first: np.ndarray, last: np.ndarray):
        self._index = index
        self._chunk_samples = chunk_samples
        self._load = np.argsort(chunk, kind="stable")
        self._sorted = chunk[self._load]
        self._chunk, self._last = chunk, last
        self._shift = np.zeros(len(chunk), np.int64)
        self._known = np.zeros(len(chunk), bool)
        self._is_scattered = np.zeros(len(chunk), bool)
        self._scattered: dict[int, np.ndarray] = {}
        self.number = number
        self.first_step = int(first.min())
        self.last_step = int(last.max())

    def find(self, step: int, samples: np.ndarray, size: np.ndarray
             ) -> tuple[np.ndarray, np.ndarray]:
        """Loads int64[k], and places in their slots int64[k, P], of samples int64[k] with parts of
        `size` bytes int64[k, P].

        Raises InputError for a sample that is of none of the chunks.
        """
        chunk = samples // self._chunk_samples
        at = np.minimum(np.searchsorted(self._sorted, chunk), len(self._sorted) - 1)
        missing = np.flatnonzero(self._sorted[at] != chunk)
        if len(missing):
            raise InputError(f"step {step} takes sample {samples[missing[0]]} of chunk "
                             f"{chunk[missing[0]]}, which this node was not told to read; remedy: "
                             "feed leader and ranks with the schedule of the same order and ranks")
        load = self._load[at]
        if not self._known[load].all():
            self._learn(np.unique(load[~self._known[load]]), step)
        places = self._index.offset[samples] + self._shift[load][:, None]
        for i in np.flatnonzero(self._is_scattered[load]):
            within = samples[i] - chunk[i] * self._chunk_samples
            places[i] = self._scattered[int(load[i])][within]
        places[size == 0] = 0  # nothing is nowhere
        return load + self.number, places

    def _learn(self, loads: np.ndarray, step: int) -> None:
        for over in [load for load in self._scattered if self._last[load] < step]:
            del self._scattered[over]
            self._known[over] = False
        extents, places = extents_of_chunks(self._index, self._chunk_samples, self._chunk[loads])
        one = np.diff(extents.begin) == 1
        self._shift[loads[one]] = -extents.offset[extents.begin[:-1][one]]
        self._known[loads] = True
        self._is_scattered[loads] = ~one
        rows = np.cumsum(self._samples_in(loads))[:-1]
        for load, is_one, each in zip(loads.tolist(), one, np.split(places, rows)):
            if not is_one:
                self._scattered[load] = each.copy()

    def _samples_in(self, loads: np.ndarray) -> np.ndarray:
        first = self._chunk[loads] * self._chunk_samples
        return np.minimum(first + self._chunk_samples, len(self._index.offset)) - first
