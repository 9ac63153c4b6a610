"""What a user's decode function is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

if TYPE_CHECKING:
    from horovod_opt.io.sample_batch import SampleBatch


class Sample:
    """One sample as it is stored; what is not asked for costs nothing.

    `parts`: bytes by name: "jpg", "cls" and so on in a tar, without those that it lacks; one named
    "" in other formats. `label`: the number of its class in a folder of classes, else None. `key`:
    its path in a folder, its key in tar and LMDB, "" in TFRecord. `number`: in the data set, from 0
    on. `epoch` and `position`: when it comes. `seed`: a 64-bit number of the data set's seed, the
    epoch and the position alone.
    """

    __slots__ = ("_batch", "_i", "_parts", "_random")

    def __init__(self, batch: SampleBatch, i: int):
        self._batch, self._i = batch, i
        self._parts: Optional[dict[str, bytes]] = None
        self._random: Optional[np.random.Generator] = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the samples beside it."""
        return Sample, (self._batch.chosen([self._i]), 0)

    @property
    def parts(self) -> Mapping[str, bytes]:
        if self._parts is None:
            parts = zip(self._batch.parts, map(bytes, self._batch.parts_of(self._i)))
            lacks = self._batch.lacks
            self._parts = dict(parts if lacks is None else
                               (part for part, lack in zip(parts, lacks[self._i]) if not lack))
        return self._parts

    @property
    def data(self) -> bytes:
        """The only part. Raises ValueError if there are several."""
        if len(self.parts) != 1:
            raise ValueError(f"sample {self.key!r} has the parts {', '.join(self.parts)}; remedy: "
                             "sample.parts[...] of one of them")
        return next(iter(self.parts.values()))

    @property
    def label(self) -> Optional[int]:
        labels = self._batch.labels
        return None if labels is None else int(labels[self._i])

    @property
    def key(self) -> str:
        return self._batch.keys[self._i]

    @property
    def number(self) -> int:
        return int(self._batch.numbers[self._i])

    @property
    def epoch(self) -> int:
        return self._batch.epoch

    @property
    def position(self) -> int:
        return int(self._batch.positions[self._i])

    @property
    def seed(self) -> int:
        return int(self._batch.seeds[self._i])

    @property
    def random(self) -> np.random.Generator:
        """For augmentation: the same numbers in every run, whichever rank or worker decodes it."""
        if self._random is None:
            self._random = np.random.default_rng(self.seed)
        return self._random
