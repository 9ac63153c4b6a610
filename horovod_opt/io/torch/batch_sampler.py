"""Which samples come in which batch of this rank, for PyTorch's DataLoader."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import Any, Optional

from torch.utils.data import Sampler
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

from horovod_opt.io.data import Data
from horovod_opt.io.errors import InputError, tell
from horovod_opt.io.node_reader.steps import Pass, StepSamples
from horovod_opt.io.progress import say
from horovod_opt.io.step_source import StepSource


class BatchNumbers(list):
    """Numbers of samples, for anyone; and where the node's reader has them, for Dataset."""

    def __init__(self, step: StepSamples, source: int):
        super().__init__(step.samples.tolist())
        self.step, self.source = step, source

    def __reduce__(self):
        return BatchNumbers, (self.step, self.source)


def batch_numbers(source: StepSource, begun: Pass) -> Iterator[BatchNumbers]:
    """Of each step of the pass, in order."""
    for step in source.samples(begun):
        yield BatchNumbers(step, source.number)


class BatchSampler(Sampler):
    """This rank's batches of each epoch; every rank makes one with the same arguments.

    For `DataLoader(hio.torch.Dataset(data), batch_sampler=hio.torch.BatchSampler(data, 64))`. Each
    loop is an epoch, or has `epoch_batches` batches; after `data.load_state_dict()` what is left of
    that.

    The position in `data` follows the batches that DataLoader hands out, though its workers ask for
    them before. What stands between the two, such as a sampler of another package, hides that: then
    the position moves when the next loop begins, or with `taken()`, and a line on stderr says so.
    """

    def __init__(self, data: Data, batch_size: Optional[int] = None, *,
                 global_batch_size: Optional[int] = None, last: str = "spread",
                 epochs: Optional[int] = None, epoch_batches: Optional[int] = None):
        self._source = StepSource(data, batch_size, global_batch_size, last, epochs, epoch_batches)
        self._pass: Optional[_Loop] = None
        self.is_told = False  # that the position is not known

    def __len__(self) -> int:
        """Batches of a whole loop, equally many on all ranks."""
        return self._source.steps

    def __iter__(self) -> Iterator[BatchNumbers]:
        loader = sys._getframe(1).f_locals.get("self")
        return _Loop(self, loader if isinstance(loader, _BaseDataLoaderIter) else None)

    def taken(self, batches: int) -> None:
        """The training has used so many batches of this loop, at least 1. Raises InputError where
        there is no loop, or it has fewer."""
        if self._pass is None or not 1 <= batches <= self._pass.steps:
            most = "no loop" if self._pass is None else f"a loop of {self._pass.steps}"
            raise InputError(f"taken({tell(batches)}) of {most}; remedy: the number of batches "
                             "that were used since the loop began")
        self._pass.taken(batches)

    def close(self) -> None:
        """This rank takes nothing more; nor do workers."""
        self._source.close()

    def _next_pass(self, new: _Loop) -> Pass:
        before = self._pass
        if before is not None and before.is_exhausted:
            before.end()
        begun = self._source.begin()
        self._pass = new
        return begun


class HandedOut:
    """How many batches of a pass; it does not refer to it."""

    def __init__(self) -> None:
        self.steps = 0

    def __call__(self) -> int:
        return self.steps


class _Loop:
    """What DataLoader asks for the next batch's numbers. PyTorch may make one that it never asks,
    so it begins when it is asked."""

    def __init__(self, sampler: BatchSampler, loader: Any):
        self._sampler, self._source = sampler, sampler._source
        self._numbers: Optional[Iterator[BatchNumbers]] = None
        self.batches: Pass
        self.is_exhausted = self._is_counted = False
        self._is_known = loader is not None and getattr(loader, "_in_order", True)
        # Of workers, which run ahead; in the training's process Dataset counts.
        self._loader = None
        if self._is_known and isinstance(loader, _MultiProcessingDataLoaderIter):
            self._loader = weakref.ref(loader)

    def __iter__(self) -> Iterator[BatchNumbers]:
        return self

    def __next__(self) -> BatchNumbers:
        if self._numbers is None:
            self.batches = self._sampler._next_pass(self)
            self._numbers = batch_numbers(self._source, self.batches)
            if not self._is_known:
                self._handed_out = HandedOut()
                self._source.is_last_pass(self.batches, self._handed_out)
            if not self._is_known and not self._sampler.is_told:
                self._sampler.is_told = True
                say("what asks BatchSampler for batches is not PyTorch's DataLoader, or not in "
                    "order, so data's position moves only when the next loop begins; remedy: call "
                    "taken(batches) of the BatchSampler after each step, or use hio.torch.loader")
        self._count()
        try:
            return next(self._numbers)
        except StopIteration:
            self.is_exhausted = True
            if self._is_known and self._loader is None:
                self.end()
            elif not self._is_known:
                self._handed_out.steps = self.steps
            raise

    @property
    def steps(self) -> int:
        return self.batches.steps

    def taken(self, batches: int) -> None:
        self._source.data.advance(*self.batches.place_after(batches))
        if batches == self.steps:
            self.end()

    def _count(self) -> None:
        """DataLoader asks once more for each batch that it is about to hand out."""
        loader = self._loader and self._loader()
        batches = getattr(loader, "_rcvd_idx", 0)
        if batches and not self._is_counted:
            self.taken(min(batches, self.steps))

    def end(self) -> None:
        """Nothing of it is still to be used."""
        if not self._is_counted:
            self._is_counted = True
            self._source.end_pass()
