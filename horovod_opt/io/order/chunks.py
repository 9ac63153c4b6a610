"""Chunks in the order of their permutation: which places, and which samples, each of them holds."""

from __future__ import annotations

import numpy as np

from horovod_opt.io.order.permutation import Key, Permutation


class Chunks:
    """Places to samples and back, int64[k] each.

    All chunks hold `chunk_samples` samples; the last one of the data set may hold fewer, wherever
    the permutation by `key` puts it. Without a key, places are samples."""

    def __init__(self, samples: int, chunk_samples: int, key: Key | None) -> None:
        self.count = -(-samples // chunk_samples)
        self.size = chunk_samples
        self.key = key
        self._permutation = Permutation(self.count, key) if key else None
        self.missing = self.count * chunk_samples - samples
        self.short = int(self.ordinal_of(np.array([self.count - 1]))[0])  # the only one that may be

    def first_place(self, ordinals: np.ndarray) -> np.ndarray:
        """Of the chunks that come at `ordinals`, 0 to `count`, which is after the last one."""
        return ordinals * self.size - self.missing * (ordinals > self.short)

    def ordinal_at(self, places: np.ndarray) -> np.ndarray:
        """As how manyth chunk in the permuted order the one at each of `places` comes."""
        behind = self.first_place(np.array(self.short + 1))
        return (places + self.missing * (places >= behind)) // self.size

    def chunk_at(self, ordinals: np.ndarray) -> np.ndarray:
        """The number of the chunk, in the data set, that comes at each of `ordinals`."""
        return self._permutation.forward(ordinals) if self._permutation else ordinals

    def ordinal_of(self, chunks: np.ndarray) -> np.ndarray:
        """The inverse of `chunk_at`."""
        return self._permutation.inverse(chunks) if self._permutation else chunks

    def sample_at(self, places: np.ndarray) -> np.ndarray:
        ordinals = self.ordinal_at(places)
        return self.chunk_at(ordinals) * self.size + places - self.first_place(ordinals)

    def place_of(self, samples: np.ndarray) -> np.ndarray:
        chunks, offsets = np.divmod(samples, self.size)
        return self.first_place(self.ordinal_of(chunks)) + offsets
