"""The samples as a data set of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Optional

import numpy as np
import torch
from torch.utils.data import get_worker_info

from horovod_opt.io.data import Data
from horovod_opt.io.decoder import Decode, DecodeBatch, decode_samples, decode_step, read_step
from horovod_opt.io.errors import DataError
from horovod_opt.io.node_reader import records
from horovod_opt.io.node_reader.direct import read_directly
from horovod_opt.io.sample import Sample
from horovod_opt.io.sample_batch import SampleBatch
from horovod_opt.io.torch.batch_sampler import BatchNumbers
from horovod_opt.io.torch.generators import OwnDraws, seed_all


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
        """Sample `number` as decode makes it, or plain. Its epoch counts as 0, its number as its
        position. Raises IndexError, and DataError for a damaged one."""
        data = self._data
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number} of {len(self)}")
        number %= len(self)
        parts, status = read_directly(data.index, number)
        for part, code in enumerate(status):
            if code != records.GOOD:
                raise DataError(records.describe(data.index, number, part, code))
        item, = decode_samples(data, single_batch(data, number, parts).expanded(),
                               self._decode)
        return item

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        if not isinstance(numbers, BatchNumbers):
            return [self[number] for number in numbers]
        data = self._data
        step = read_step(data, data.members[numbers.source], numbers.step, self._decode is None)
        if get_worker_info() is not None:
            return decode_step(data, step, self._decode and add_seed(self._decode))
        draws, decode = OwnDraws(), self._decode
        with draws.apart(looks=False):
            samples = decode_step(data, step, decode and draws.decode(decode))
        # Nobody has asked for it but the training, which gets it now.
        data.advance(step.info.epoch, step.info.end)
        return samples


def single_batch(data: Data, number: int, parts: Sequence[bytes]) -> SampleBatch:
    """A batch of one sample."""
    size = np.array([[len(part) for part in parts]], np.int64)
    numbers = np.array([number])
    return SampleBatch(data.index, data.order.seed, 0, numbers, numbers,
                       np.frombuffer(bytearray(b"".join(parts)), np.uint8),
                       np.cumsum(size, axis=1) - size, size)


def add_seed(decode: Decode) -> Decode:
    """In a worker process the random numbers of Python, NumPy and PyTorch follow the sample, too;
    in the training's own process see OwnDraws."""
    return partial(_decode_seeded, decode)


def add_batch_seed(decode_batch: DecodeBatch) -> DecodeBatch:
    """The same: they follow the first sample."""
    return partial(_decode_batch_seeded, decode_batch)


def _decode_seeded(decode: Decode, sample: Sample) -> Any:
    if get_worker_info() is not None:
        seed_all(sample.seed)
    return decode(sample)


def _decode_batch_seeded(decode_batch: DecodeBatch, samples: SampleBatch) -> Any:
    if get_worker_info() is not None and len(samples):
        seed_all(int(samples.seeds[0]))
    return decode_batch(samples)
