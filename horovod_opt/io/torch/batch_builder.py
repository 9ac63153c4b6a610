"""From the samples of a step to the batch that the training gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple, Optional

from horovod_opt.io.batch import BatchInfo
from horovod_opt.io.data import Data
from horovod_opt.io.decoder import (
    Decode,
    DecodeBatch,
    GoodSamples,
    drop_undecoded,
    start_decoding,
)
from horovod_opt.io.errors import DataError

Collate = Callable[[Sequence[Any]], Any]


class Batch(NamedTuple):
    """A batch, and what it says of itself."""

    batch: Any
    info: BatchInfo


class BatchBuilder:
    """By `decode_batch`, if there is one; else each sample by `decode`, and all by `collate`."""

    def __init__(self, data: Data, decode: Optional[Decode], decode_batch: Optional[DecodeBatch],
                 collate: Collate):
        self._data, self._decode = data, decode
        self._decode_batch, self._collate = decode_batch, collate

    @property
    def is_plain(self) -> bool:
        """Nothing is decoded."""
        return self._decode is self._decode_batch is None

    def start(self, step: GoodSamples, pool: Optional[Executor]) -> Callable[[], Batch]:
        """The threads of `pool` begin to decode; what is returned makes the batch."""
        if self._decode_batch is not None:
            return lambda: self(step)
        items = start_decoding(self._data, step.samples, self._decode, pool)

        def finish() -> Batch:
            good, info = drop_undecoded(self._data, step, list(items))
            return Batch(self._make(self._collate, good, step, "collating", "collate="), info)

        return finish

    def __call__(self, step: GoodSamples) -> Batch:
        """Raises DataError for what `decode`, `collate` and `decode_batch` raise."""
        if self._decode_batch is None:
            return self.start(step, None)()
        return Batch(self._make(self._decode_batch, step.samples, step, "decoding",
                                "decode_batch="), step.info)

    @staticmethod
    def _make(function: Callable[[Any], Any], samples: Any, step: GoodSamples, doing: str,
              argument: str) -> Any:
        try:
            return _unless_empty(function, samples)
        except Exception as error:
            numbers = step.samples.numbers
            raise DataError(
                f"{doing} step {step.info.step} of epoch {step.info.epoch}, samples "
                f"{numbers[:8].tolist()}{' and so on' * (len(numbers) > 8)}: "
                f"{type(error).__name__}: {error}; remedy: correct {argument}, or the samples"
            ) from error


def _unless_empty(function: Callable[[Any], Any], samples: Any) -> Any:
    """Of no samples a batch is made if `function` can."""
    try:
        return function(samples)
    except Exception:
        if len(samples):
            raise
        return None
