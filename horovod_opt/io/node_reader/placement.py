"""In which load, and where in its chunk buffer, a rank finds the samples of some steps."""

from __future__ import annotations

from typing import Optional

import numpy as np

from horovod_opt.io.errors import InputError
from horovod_opt.io.node_reader.layout import counts_of, extents_of_chunks


class Placement:
    """Of loads of one epoch, or of pieces of it that overlap, as far as they are not over.

    `number` is the first load's; load `number + i` brings chunk `chunk[i]`, for steps `first[i]` to
    `last[i]` (int64[loads]). Where a chunk is one extent, as in most formats, all its parts are
    shifted alike, and one number is kept of it; else the place of each part, while it is needed.
    """

    def __init__(self, index, chunk_samples: int, number: int, chunk: np.ndarray,
                 first: np.ndarray, last: np.ndarray):
        self._index = index
        self._chunk_samples = chunk_samples
        # A row for each load, sorted by chunk.
        self._number, self._chunk, self._last = (np.zeros(0, np.int64) for _ in range(3))
        self._shift = np.zeros(0, np.int64)
        self._known, self._is_scattered = np.zeros(0, bool), np.zeros(0, bool)
        self._scattered: dict[int, np.ndarray] = {}  # by number
        self._joined: Optional[tuple[np.ndarray, np.ndarray]] = None  # all of these
        self.first_step = int(first.min())
        self.last_step = self.first_step
        self.extend(number, chunk, first, last, self.first_step)

    def extend(self, number: int, chunk: np.ndarray, first: np.ndarray, last: np.ndarray,
               step: int) -> None:
        """The next loads; what is over before `step` is forgotten.

        Raises InputError for a chunk that is there already.
        """
        is_current = self._last >= step
        chunks = np.concatenate([self._chunk[is_current], chunk])
        order = np.argsort(chunks, kind="stable")
        again = np.flatnonzero(np.diff(chunks[order]) == 0)
        if len(again):
            raise InputError(f"a load of chunk {chunks[order][again[0]]} for step {first.min()} "
                             f"on, but another one is for up to step {self.last_step}")
        for over in set(self._number[~is_current].tolist()) & self._scattered.keys():
            del self._scattered[over]
        new = np.zeros(len(chunk), np.int64)
        self._chunk = chunks[order]
        self._number, self._last, self._shift, self._known, self._is_scattered = (
            np.concatenate([old[is_current], more.astype(old.dtype)])[order] for old, more in (
                (self._number, number + np.arange(len(chunk))), (self._last, last),
                (self._shift, new), (self._known, new), (self._is_scattered, new)))
        self._joined = None
        self.last_step = max(self.last_step, int(last.max()))

    def find(self, steps: np.ndarray, samples: np.ndarray, size: np.ndarray
             ) -> tuple[np.ndarray, np.ndarray]:
        """Loads int64[k], and places in their chunk buffers int64[k, P], of samples int64[k] that
        are needed in `steps` int64[k], ascending, with parts of `size` bytes int64[k, P].

        Raises InputError for a sample that is of none of the chunks.
        """
        chunk = samples // self._chunk_samples
        row = np.minimum(np.searchsorted(self._chunk, chunk), len(self._chunk) - 1)
        missing = np.flatnonzero(self._chunk[row] != chunk)
        if len(missing):
            which = missing[0]
            raise InputError(f"step {steps[which]} takes sample {samples[which]} of chunk "
                             f"{chunk[which]}, which this node was not told to read; remedy: feed "
                             "reader and ranks with the schedule of the same order and ranks")
        if not self._known[row].all():
            self._learn(np.unique(row[~self._known[row]]), int(steps[0]))
        places = self._index.offset[samples] + self._shift[row][:, None]
        scattered = np.flatnonzero(self._is_scattered[row])
        if len(scattered):
            begin, flat = self._flat()
            within = samples[scattered] - chunk[scattered] * self._chunk_samples
            places[scattered] = flat[begin[row[scattered]] + within]
        places[size == 0] = 0  # nothing is nowhere
        return self._number[row], places

    def _flat(self) -> tuple[np.ndarray, np.ndarray]:
        """Where those of each row begin, int64[rows], in the places of all, one after the other:
        int64[n, P]."""
        if self._joined is None:
            rows = np.flatnonzero(self._is_scattered & self._known)
            places = [self._scattered[number] for number in self._number[rows].tolist()]
            begin = np.zeros(len(self._number), np.int64)
            begin[rows[1:]] = np.cumsum([len(rows_places) for rows_places in places[:-1]])
            self._joined = begin, np.concatenate(places)
        return self._joined

    def _learn(self, rows: np.ndarray, step: int) -> None:
        for row in np.flatnonzero(self._is_scattered & self._known & (self._last < step)):
            del self._scattered[int(self._number[row])]
            self._known[row] = False
        self._joined = None
        extents, places = extents_of_chunks(self._index, self._chunk_samples, self._chunk[rows])
        is_one_extent = np.diff(extents.begin) == 1
        self._shift[rows[is_one_extent]] = -extents.offset[extents.begin[:-1][is_one_extent]]
        self._known[rows] = True
        self._is_scattered[rows] = ~is_one_extent
        samples = counts_of(self._chunk[rows], self._chunk_samples, len(self._index.offset))
        ends = np.cumsum(samples)[:-1]
        for row, is_whole, chunk_places in zip(rows.tolist(), is_one_extent,
                                               np.split(places, ends)):
            if not is_whole:
                self._scattered[int(self._number[row])] = chunk_places.copy()
