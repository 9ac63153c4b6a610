"""What a batch says of itself beside its data."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

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


def with_info(batch: Any, info: BatchInfo) -> Any:
    """The same batch, with `info` as its attribute `info`.

    Lists, tuples, dicts and so on become instances of a class derived from their own, for theirs
    take no attributes.
    """
    try:
        batch.info = info
        return batch
    except AttributeError:
        pass
    kind = type(batch)
    try:
        derived = _with_attributes(kind)
        if isinstance(batch, np.ndarray):
            result = batch.view(derived)
        else:
            result = derived._make(batch) if hasattr(kind, "_make") else derived(batch)
    except TypeError:  # such as of None
        result = BatchWrapper(batch)
    result.info = info
    return result


class BatchWrapper(NamedTuple("BatchWrapper", [("data", Any)])):
    """A batch of a type that can take no attribute and cannot be derived from, such as None."""


def without_holes(info: BatchInfo, good: int, ranks: int) -> BatchInfo:
    """Of the same batch with `good` samples, as the others are damaged and left out."""
    return info._replace(size=good, weight=good * ranks / (info.end - info.start))


def info_of(batch: Any) -> BatchInfo:
    """Of a batch of this package, its info itself, or the dict of an element of
    hio.tensorflow.dataset(with_info=True). Raises InputError for another one."""
    info = getattr(batch, "info", batch)
    if isinstance(batch, Mapping) and set(batch) == set(BatchInfo._fields):
        return BatchInfo(**{name: value.numpy().item() for name, value in batch.items()})
    if not isinstance(info, BatchInfo):
        raise InputError(f"this {type(batch).__name__} does not say which samples it has; remedy: "
                         "give the batch as the loader has made it")
    return info


@lru_cache(maxsize=None)
def _with_attributes(kind: type) -> type:
    def plain(batch: Any) -> Any:
        if isinstance(batch, np.ndarray):
            return batch.view(kind)
        return kind._make(batch) if hasattr(kind, "_make") else kind(batch)

    # Nobody finds this class by its name, and arrays copy themselves without their attributes.
    return type(kind.__name__, (kind,), {
        "__module__": kind.__module__,
        "__reduce_ex__": lambda batch, _protocol: (with_info, (plain(batch), batch.info)),
        "__copy__": lambda batch: with_info(copy.copy(plain(batch)), batch.info),
        "__deepcopy__": lambda batch, memo: with_info(copy.deepcopy(plain(batch), memo),
                                                      batch.info)})
