"""Where Keras 3 decides something without asking the optimizer that reduces gradients."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from horovod_opt import xla


def registered_name(cls: type) -> str:
    """The name under which Keras saves the objects of a class."""
    import keras
    return keras.saving.get_registered_name(cls)


def reducer_of(optimizer: Any) -> Any | None:
    """What reduces the gradients of an optimizer, or of the one that it scales the loss for."""
    while optimizer is not None:
        reducer = getattr(optimizer, "_reducer", None)
        if reducer is not None:
            return reducer
        optimizer = getattr(optimizer, "inner_optimizer", None)
    return None


@functools.cache
def install() -> None:
    """Changes two methods of Keras, only for models and optimizers that reduce gradients.

    compile(jit_compile="auto"), the default, asks only layers whether XLA can compile them.

    In mixed precision Keras puts a LossScaleOptimizer around the optimizer, which skips a step if a
    gradient is not finite. All ranks must skip it, or those that do not would wait for the others.
    """
    from keras.optimizers import LossScaleOptimizer

    trainer = importlib.import_module("keras.src.trainers.trainer").Trainer
    resolve, check_finite = trainer._resolve_auto_jit_compile, LossScaleOptimizer.check_finite

    @functools.wraps(resolve)
    def _resolve_auto_jit_compile(self: Any) -> bool:
        if reducer_of(getattr(self, "optimizer", None)) is not None and not xla.is_enabled():
            return False
        return resolve(self)

    @functools.wraps(check_finite)
    def _check_finite(self: Any, grads: list) -> Any:
        finite = check_finite(self, grads)
        reducer = reducer_of(self.inner_optimizer)
        return finite if reducer is None else reducer.everywhere(finite)

    trainer._resolve_auto_jit_compile = _resolve_auto_jit_compile
    LossScaleOptimizer.check_finite = _check_finite
