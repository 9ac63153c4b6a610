"""Samples that nothing is decoded of, as bytes objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from horovod_opt.io.index import Index


class PlainSamples:
    """k samples of one part. `numbers`: int64[k], in the data set."""

    def __init__(self, index: Index, numbers: np.ndarray, data: list[bytes]):
        self._index, self.numbers, self._data = index, numbers, data

    def __len__(self) -> int:
        return len(self._data)

    def plain(self) -> list[Any]:
        """As SampleBatch.plain() has it."""
        label = self._index.label
        return self._data if label is None else list(zip(self._data, label[self.numbers].tolist()))

    def chosen(self, which: Sequence[int]) -> PlainSamples:
        """Some of them."""
        return PlainSamples(self._index, self.numbers[which], [self._data[i] for i in which])
