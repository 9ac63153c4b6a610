"""The random numbers of decode, from generators that belong to the process and its training."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Optional

import numpy as np
import torch

from horovod_opt.io.decoder import Decode, DecodeBatch
from horovod_opt.io.sample import Sample
from horovod_opt.io.sample_batch import SampleBatch


def seed_all(seed: int) -> None:
    """Of Python, NumPy and PyTorch, for numbers made by the processor: those of a GPU are only the
    training's."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)


class States:
    """Of these generators, as they are now."""

    def __init__(self) -> None:
        self._python, self._numpy = random.getstate(), np.random.get_state(legacy=False)
        self._torch = torch.get_rng_state()

    def restore(self) -> None:
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)

    def equal(self, other: States) -> bool:
        return (self._python == other._python and torch.equal(self._torch, other._torch)
                and repr(self._numpy["state"]["pos"]) == repr(other._numpy["state"]["pos"])
                and np.array_equal(self._numpy["state"]["key"], other._numpy["state"]["key"]))


class OwnDraws:
    """Functions that draw from these generators in the training's process, on its own thread: the
    numbers follow the sample, as in a worker, and the training finds its generators as they were.

    A thread beside the training cannot do so: generators are the process's. Whether functions draw
    at all, so whether they may run there, is found with the first batch.
    """

    def __init__(self) -> None:
        self.found = False  # they do
        self._looks = False
        self._mark: Optional[States] = None

    @contextmanager
    def apart(self, looks: bool) -> Iterator[None]:
        """Around a batch. `looks`: whether something is drawn in it."""
        before, self._looks, self._mark = States(), looks, None
        try:
            yield
            self._look()  # also at what comes behind the last sample
        finally:
            self._looks = False
            before.restore()

    def decode(self, decode: Decode) -> Decode:
        def seeded(sample: Sample) -> Any:
            return self._call(decode, sample, sample.seed)

        return seeded

    def decode_batch(self, decode: DecodeBatch) -> DecodeBatch:
        def seeded(samples: SampleBatch) -> Any:
            return self._call(decode, samples, int(samples.seeds[0]) if len(samples) else 0)

        return seeded

    def _call(self, function: Callable[[Any], Any], argument: Any, seed: int) -> Any:
        self._look()
        seed_all(seed)
        if self._looks:
            self._mark = States()
        return function(argument)

    def _look(self) -> None:
        if self._looks and not self.found and self._mark is not None:
            self.found = not self._mark.equal(States())
