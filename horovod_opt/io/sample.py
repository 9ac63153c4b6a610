"""What a user's decode function is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Optional

import numpy as np

if TYPE_CHECKING:
    from horovod_opt.io.index import Index


@dataclass(frozen=True)
class Sample:
    """One sample as it is stored.

    `parts`: bytes by name: "jpg", "cls" and so on in a tar, one named "" in other formats. `label`:
    the number of its class in a folder of files, else None. `key`: its path in a folder, its key in
    tar and LMDB, "" in TFRecord. `number`: in the data set, from 0 on. `epoch` and `position`: when
    it comes. `seed`: a 64-bit number of the data set's seed, the epoch and the position alone.
    """

    parts: Mapping[str, bytes]
    label: Optional[int]
    key: str
    number: int
    epoch: int
    position: int
    seed: int

    @property
    def data(self) -> bytes:
        """The only part. Raises ValueError if there are several."""
        if len(self.parts) != 1:
            raise ValueError(f"sample {self.key!r} has the parts {', '.join(self.parts)}; remedy: "
                             "sample.parts[...] of one of them")
        return next(iter(self.parts.values()))

    @cached_property
    def random(self) -> np.random.Generator:
        """For augmentation: the same numbers in every run, whichever rank or worker decodes it."""
        return np.random.default_rng(self.seed)


def sample_of(index: Index, number: int, parts: Sequence[bytes], epoch: int, position: int,
              seed: int) -> Sample:
    """Sample `number` of an index, with the bytes of its parts."""
    return Sample(dict(zip(index.parts, parts)),
                  None if index.label is None else int(index.label[number]), index.key(number),
                  number, epoch, position, seed)


def seed_of(seed: int, epoch: int, position: int) -> int:
    """The seed of a sample, 0 to 2**64 - 1."""
    numbers = b"".join(one.to_bytes(8, "little") for one in (seed, epoch, position))
    return int.from_bytes(blake2b(numbers, digest_size=8, person=b"hio.sample").digest(), "little")
