"""The samples as a data set of PyTorch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import torch
from torch.utils.data import get_worker_info

from horovod_opt.io.data import Data
from horovod_opt.io.decoding import Decode, decoded, plain
from horovod_opt.io.errors import DataError
from horovod_opt.io.reader import statuses
from horovod_opt.io.reader.direct import read_directly
from horovod_opt.io.sample import Sample, sample_of, seed_of
from horovod_opt.io.torch.batch_sampler import Chosen


class Dataset(torch.utils.data.Dataset):
    """For PyTorch's DataLoader and its workers, with a BatchSampler of the same `data`.

    Whole batches come through the node's reader. `dataset[i]` reads sample i from its file, for a
    look at it, or for samplers of other makes, which get no more than that.
    """

    def __init__(self, data: Data, decode: Optional[Decode] = None):
        self._data, self._decode = data, decode

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, number: int) -> Any:
        """Sample `number` as decode makes it, or plain. Its epoch and position count as 0. Raises
        IndexError, and DataError for a damaged one."""
        data = self._data
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number} of {len(self)}")
        number %= len(self)
        parts, status = read_directly(data.index, number)
        for part, one in enumerate(status):
            if one != statuses.GOOD:
                raise DataError(statuses.describe(data.index, number, part, one))
        return (self._decode or plain)(sample_of(
            data.index, number, parts, 0, 0, seed_of(data.order.seed, 0, number)))

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        if not isinstance(numbers, Chosen):
            return [self[number] for number in numbers]
        return decoded(self._data, self._data.members[numbers.reading], numbers.step,
                       seeding(self._decode or plain)).items


def seeding(decode: Decode) -> Decode:
    """In a worker process the random numbers of Python, NumPy and PyTorch follow the sample,
    too; in the training's own process they are the training's."""
    if get_worker_info() is None:
        return decode

    def seeded(sample: Sample) -> Any:
        random.seed(sample.seed)
        np.random.seed(sample.seed % 2**32)
        torch.manual_seed(sample.seed)
        return decode(sample)

    return seeded
