"""Where samples lie in the chunks of a data set, as these come in chunk buffers."""

from __future__ import annotations

import numpy as np

from horovod_opt.io.index import Index
from horovod_opt.io.node_reader import layout


class ChunkPlaces:
    """Of all samples of `index`, in chunks of `chunk_samples`.

    Of a chunk that is one piece of a file, as in most formats, one number is kept; of others the
    place of each part."""

    def __init__(self, index: Index, chunk_samples: int):
        self._index, self._chunk_samples = index, chunk_samples
        samples = len(index.offset)
        chunks = -(-samples // chunk_samples)
        self._shift = np.zeros(chunks, np.int64)
        self._begin = np.full(chunks, -1)  # in `_flat`, of scattered chunks
        flat, count = [np.zeros((0, index.size[:1].shape[1]), np.int64)], 0
        at_once = max(layout.AT_ONCE // chunk_samples, 1)
        for first in range(0, chunks, at_once):
            some = np.arange(first, min(first + at_once, chunks))
            extents, places = layout.extents_of_chunks(index, chunk_samples, some)
            is_one = np.diff(extents.begin) == 1
            self._shift[some[is_one]] = -extents.offset[extents.begin[:-1][is_one]]
            counts = layout.counts_of(some, chunk_samples, samples)
            flat.append(places[np.repeat(~is_one, counts)])
            scattered = counts[~is_one]
            self._begin[some[~is_one]] = count + np.cumsum(scattered) - scattered
            count += int(scattered.sum())
        self._flat = np.concatenate(flat)

    def of(self, samples: np.ndarray) -> np.ndarray:
        """Of the parts of samples (int64[k]): int64[k, P]."""
        chunk = samples // self._chunk_samples
        places = self._index.offset[samples] + self._shift[chunk][:, np.newaxis]
        begin = self._begin[chunk]
        scattered = np.flatnonzero(begin >= 0)
        within = samples[scattered] - chunk[scattered] * self._chunk_samples
        places[scattered] = self._flat[begin[scattered] + within]
        return places
