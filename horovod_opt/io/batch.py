"""What is known of a batch beside its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from horovod_opt.io.errors import InputError


class BatchInfo(NamedTuple):
    """Of a rank's batch: `epoch`; `step` from the start of the epoch or of what is left of it;
    positions `start` to `end` - 1 of the global batch; `size`, the samples in it, without those
    left out as damaged; `slots`, the samples it has room for; `weight`, by which the rank's mean is
    multiplied so that the mean over ranks is that over samples."""

    epoch: int
    step: int
    start: int
    end: int
    size: int
    slots: int
    weight: float


def without_holes(info: BatchInfo, good: int, ranks: int) -> BatchInfo:
    """Of the same batch with `good` samples, as the others are damaged and left out."""
    return info._replace(size=good, weight=good * ranks / (info.end - info.start))


def info_of(info: Any) -> BatchInfo:
    """What a loader with with_info=True has given beside a batch: for TensorFlow a dict of scalars.
    Raises InputError for anything else."""
    if isinstance(info, Mapping) and set(info) >= set(BatchInfo._fields):
        return BatchInfo(**{name: info[name].numpy().item() for name in BatchInfo._fields})
    if not isinstance(info, BatchInfo):
        raise InputError(f"a {type(info).__name__} does not say which samples a batch has; remedy: "
                         "give the info that a loader made with with_info=True has beside it")
    return info
