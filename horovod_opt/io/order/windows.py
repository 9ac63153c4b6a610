"""Which places change their samples with each other: those of one window of a shard's chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import numpy as np

from horovod_opt.io.order.chunks import Chunks
from horovod_opt.io.order.permutation import Key, Permutation, derive_keys
from horovod_opt.io.order.shards import Shards

Direction = Callable[[Permutation, np.ndarray], np.ndarray]


class Windows:
    """The permutation of places within windows of `window` consecutive chunks of a shard.

    The first window of the shard of ordinal i of S has 1 + floor(i window / S) chunks: the shards,
    also those of any one node, change windows at different times, so what is needed at once stays
    even. With `has_whole_shards` each has one window, of all its chunks. Each window has a key of
    its own, made from `key`. Without a key nothing is permuted."""

    def __init__(self, chunks: Chunks, shards: Shards, window: int, key: Optional[Key],
                 has_whole_shards: bool = False) -> None:
        self._chunks = chunks
        self.window = window
        self.key = key
        self._shards = shards
        self.first_size = (np.full(shards.count, window) if has_whole_shards
                           else 1 + shards.ordinal_of_shard * window // shards.count)

    def chunks(self, ordinals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(first, end): which chunks make up the window of each of `ordinals`, by ordinals, too."""
        shard = self._shards.shard_of_chunk(ordinals)
        first, end = self._shards.first_chunk[shard], self._shards.first_chunk[shard + 1]
        behind = ordinals - first - self.first_size[shard]
        start = np.where(behind < 0, first,
                         first + self.first_size[shard] + behind // self.window * self.window)
        size = np.where(behind < 0, self.first_size[shard], self.window)
        return start, np.minimum(start + size, end)

    def forward(self, places: np.ndarray) -> np.ndarray:
        """The places whose samples come at `places`; int64[k] to int64[k]."""
        return self._permute(places, Permutation.forward)

    def inverse(self, places: np.ndarray) -> np.ndarray:
        """Where the samples of `places` come."""
        return self._permute(places, Permutation.inverse)

    def _permute(self, places: np.ndarray, direction: Direction) -> np.ndarray:
        if self.key is None:
            return places
        first, end = self.chunks(self._chunks.ordinal_at(places))
        start = self._chunks.first_place(first)
        permutation = Permutation(self._chunks.first_place(end) - start,
                                  derive_keys(self.key, first.astype(np.uint64)))
        return start + direction(permutation, places - start)
