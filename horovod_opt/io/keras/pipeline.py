"""What stands between hio.tensorflow.dataset() and fit(): whether its batches can be counted."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from horovod_opt.io.errors import InputError

if TYPE_CHECKING:
    from horovod_opt.io.data import Data
    from horovod_opt.io.step_source import StepSource

# Of tf.data: what hands each batch on as it is, and in order.
KEEPING = ("Map", "ParallelMap", "Prefetch", "Options", "CopyToDevice", "MapOnGpu",
           "AssertCardinality", "Zip", "Restructured")
REPEAT = "Repeat"
REMEDY = ("remedy: behind hio.tensorflow.dataset() only .map(), .prefetch() and, with "
          "steps_per_epoch=, .repeat(); the order is shuffled by hio.open(), and batch_size= is "
          "dataset()'s")


class Fit(NamedTuple):
    """The arguments of a call of model.fit(). `is_running` says whether what it reads ahead by is
    still there, if Keras tells."""

    x: Any
    steps_per_epoch: Optional[int]
    is_running: Callable[[], bool]


def find_fit(model: Any) -> Optional[Fit]:
    """The call of fit() that this one comes from: Keras tells callbacks nothing of its data. None:
    it comes from somewhere else."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        names = frame.f_locals
        if frame.f_code.co_name == "fit" and names.get("self") is model and "x" in names:
            iterator = names.get("epoch_iterator")
            alive = (lambda: None) if iterator is None else weakref.ref(iterator)
            return Fit(names["x"], names.get("steps_per_epoch"), lambda: alive() is not None)
        frame = frame.f_back
    return None


def require_countable(fit: Fit, data: Data) -> StepSource:
    """Where the batches that fit() gets are from. Raises InputError if they are not those of
    `data`, one by one and in order."""
    import tensorflow as tf

    if not isinstance(fit.x, tf.data.Dataset):
        raise InputError(f"fit() was given a {type(fit.x).__name__}, whose batches Resume cannot "
                         f"count; {REMEDY}")
    source = _find(fit.x, data, fit.steps_per_epoch)
    if source is None:
        raise InputError("fit() was given another data set than that of Resume's data, whose "
                         f"batches it would count; {REMEDY}")
    return source


def _find(dataset: Any, data: Data, steps_per_epoch: Optional[int]) -> Optional[StepSource]:
    source = getattr(dataset, "hio_source", None)
    if source is not None:
        return source if source.data is data else None
    found = None
    for before in dataset._inputs():
        found = found or _find(before, data, steps_per_epoch)
    if found is not None:
        _check(dataset, steps_per_epoch)
    return found


def _check(dataset: Any, steps_per_epoch: Optional[int]) -> None:
    name = type(dataset).__name__.strip("_").removesuffix("V1").removesuffix("V2")
    name = name.removesuffix("Dataset")
    if name == REPEAT and steps_per_epoch is None:
        raise InputError("behind .repeat() fit() finds no end of an epoch; remedy: no .repeat(), "
                         "as each loop over hio.tensorflow.dataset() is an epoch, or "
                         "steps_per_epoch=")
    in_order = getattr(dataset, "_deterministic", "default") != "false" and (
        name != "ParallelMap" or dataset.options().deterministic is not False)
    if name not in (*KEEPING, REPEAT) or not in_order:
        what = name if in_order else f"{name} with deterministic=False"
        raise InputError(f"behind tf.data's {what} batches are not those of "
                         f"hio.tensorflow.dataset(), or not in their order, so Resume cannot count "
                         f"them; {REMEDY}")
