"""Models of Keras 3 loaded from files, with an optimizer that reduces gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from horovod_opt.keras3 import hooks


def load_model(keras: Any, wrap_optimizer: Callable, filepath: Any, custom_optimizers: Any,
               custom_objects: dict | None) -> Any:
    """What hvd.load_model() returns: the optimizer keeps its state and reduces gradients.

    `wrap_optimizer` takes what makes an optimizer to what makes a distributed one.
    """
    import h5py
    from keras.src.legacy.saving import legacy_h5_format

    objects = {hooks.registered_name(cls): cls for cls in custom_optimizers or ()}
    objects.update(custom_objects or {})
    is_open = isinstance(filepath, h5py.File)
    load = legacy_h5_format.load_model_from_hdf5 if is_open else keras.models.load_model
    model = load(filepath, custom_objects=objects)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return model

    is_hdf5 = is_open or str(filepath).endswith((".h5", ".hdf5"))
    # From HDF5 Keras builds it for no variables at all, and drops what the file says about them.
    inner = type(optimizer).from_config(optimizer.get_config()) if is_hdf5 else optimizer
    distributed = wrap_optimizer(lambda: inner)()
    optimizer.__class__ = type(distributed)
    if is_hdf5:
        vars(optimizer).clear()
        vars(optimizer).update(vars(distributed))
        optimizer.build(model.trainable_variables)
        source = contextlib.nullcontext(filepath) if is_open else h5py.File(filepath)
        with source as file:
            if "optimizer_weights" in file:
                weights = legacy_h5_format.load_optimizer_weights_from_hdf5_group(file)
                for variable, weight in zip(optimizer.variables, weights):
                    variable.assign(weight)
    else:
        optimizer._reducer = distributed._reducer
    return model
