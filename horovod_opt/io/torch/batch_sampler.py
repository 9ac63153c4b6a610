"""Which samples come in which batch of this rank, for PyTorch's DataLoader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from torch.utils.data import Sampler

from horovod_opt.io.data import Data
from horovod_opt.io.step_source import Epoch, StepSamples, StepSource


class BatchNumbers(list):
    """Numbers of samples, for anyone; and where the node's reader has them, for Dataset."""

    def __init__(self, step: StepSamples, source: int):
        super().__init__(step.samples.tolist())
        self.step, self.source = step, source

    def __reduce__(self):
        return BatchNumbers, (self.step, self.source)


def batch_numbers(source: StepSource, epoch: Epoch) -> Iterator[BatchNumbers]:
    """Of each step of the epoch, in order."""
    for step in source.samples(epoch):
        yield BatchNumbers(step, source.number)


class BatchSampler(Sampler):
    """This rank's batches of each epoch; every rank makes one with the same arguments.

    For `DataLoader(hio.torch.Dataset(data), batch_sampler=hio.torch.BatchSampler(data, 64))`. Each
    loop is an epoch; after `data.load_state_dict()` what is left of one. DataLoader asks for
    batches before the training does, so the position in `data` moves only with
    `data.advance(epoch, position)`, or at the end of the loop.
    """

    def __init__(self, data: Data, batch_size: Optional[int] = None, *,
                 global_batch_size: Optional[int] = None, last: str = "spread",
                 epochs: Optional[int] = None):
        self._source = StepSource(data, batch_size, global_batch_size, last, epochs)

    def __len__(self) -> int:
        """Batches of a whole epoch, equally many on all ranks."""
        return self._source.steps

    def __iter__(self) -> Iterator[BatchNumbers]:
        epoch = self._source.begin()
        yield from batch_numbers(self._source, epoch)
        self._source.data.advance(epoch.epoch + 1, 0)
