"""Optimizers of Keras 3 that reduce their gradients.

Keras 2 asks the optimizer for gradients; upstream's DistributedOptimizer reduces them there.
Keras 3 takes the gradients in the model's train_step() and hands them to the optimizer's apply().
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import horovod.tensorflow as hvd
import keras
import tensorflow as tf
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from horovod.tensorflow.util import tf_variable

from horovod_opt import xla
from horovod_opt.keras3 import hooks


def is_keras_3(optimizer: Any) -> bool:
    """Optimizers of Keras 2 have no apply()."""
    return hasattr(optimizer, "apply") and hasattr(optimizer, "apply_gradients")


class Reducer:
    """Reduces the gradients of one optimizer; arguments as those of hvd.DistributedOptimizer."""

    def __init__(self, name: str, device_dense: str, device_sparse: str, compression: Any,
                 sparse_as_dense: bool, op: Any, gradient_predivide_factor: float,
                 backward_passes_per_step: int, average_aggregated_gradients: bool,
                 groups: int | list | None, process_set: Any, scale_local_gradients: bool):
        self.process_set = process_set
        self._scale_local = scale_local_gradients
        self._local: set = set()
        self._results: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
        self._allreduce = hvd._make_allreduce_grads_fn(
            name, device_dense, device_sparse, compression, sparse_as_dense, op,
            gradient_predivide_factor, groups, process_set=process_set)
        self.helper = None
        if backward_passes_per_step > 1:
            self.helper = LocalGradientAggregationHelperEager(
                backward_passes_per_step=backward_passes_per_step,
                allreduce_func=self._allreduce,
                sparse_as_dense=sparse_as_dense,
                average_aggregated_gradients=average_aggregated_gradients,
                process_set=process_set,
                scale_local_gradients=scale_local_gradients)

    def register_local(self, variable: Any) -> None:
        if self.helper:
            self.helper.register_local_var(variable)
        self._local.add(tf_variable(variable).ref())

    def reduce(self, gradients: Sequence, variables: Sequence) -> list:
        """Gradients in the same order; None stays None, and what was reduced here stays as it is.

        With backward_passes_per_step, sums so far in passes that reduce nothing.
        """
        result = list(gradients)
        places = [place for place, gradient in enumerate(result) if gradient is not None]
        inputs = [result[place] for place in places]
        if not inputs or all(self._results.get(id(gradient)) is gradient for gradient in inputs):
            return result
        owners = [tf_variable(variables[place]) for place in places]
        reduce = self.helper.compute_gradients if self.helper else self._reduce_shared
        for place, gradient in zip(places, reduce(inputs, owners)):
            result[place] = gradient
            self._results[id(gradient)] = gradient
        return result

    def _reduce_shared(self, gradients: list, variables: list) -> list:
        shared = [place for place, variable in enumerate(variables)
                  if variable.ref() not in self._local]
        sums = dict(zip(shared, self._allreduce([gradients[place] for place in shared],
                                                [variables[place] for place in shared])
                        if shared else ()))
        return [sums[place] if place in sums else self._scale(gradient)
                for place, gradient in enumerate(gradients)]

    def _scale(self, gradient: Any) -> Any:
        """A local variable's gradient, divided as if averaged with zeros of the other ranks."""
        if not self._scale_local:
            return gradient
        elastic = int(os.environ.get("HOROVOD_ELASTIC", 0))
        size = hvd.size_op(self.process_set.process_set_id) if elastic else self.process_set.size()
        if isinstance(gradient, tf.IndexedSlices):
            values = gradient.values / tf.cast(size, gradient.values.dtype)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return gradient / tf.cast(size, gradient.dtype)

    def everywhere(self, flag: tf.Tensor) -> tf.Tensor:
        """Whether a boolean scalar is true on every rank."""
        lowest = hvd._allreduce_cond(tf.cast(flag, tf.int32), op=hvd.Min,
                                     process_set=self.process_set)
        return tf.cast(lowest, tf.bool)


def distribute(optimizer: Any, *arguments: Any) -> Any:
    """`optimizer`, with its variables and all that it has been told, reducing its gradients.

    `arguments`: those of Reducer. Raises: ValueError.
    """
    hooks.install()
    if hooks.reducer_of(optimizer) is not None:
        raise ValueError("hvd.DistributedOptimizer: the optimizer is one already")
    if getattr(optimizer, "_distributed", False):
        raise ValueError("hvd.DistributedOptimizer: another one has been made of this optimizer "
                         "and has its variables: make an optimizer for each")
    make_reducer = functools.partial(Reducer, *arguments)
    cls = _make_class(type(optimizer), make_reducer)
    distributed = cls.__new__(cls)
    vars(distributed).update(vars(optimizer))
    distributed._use(make_reducer())
    optimizer._distributed = True
    return distributed


def _distribute_unpickled(unpickle: Callable, file: Any, arguments: tuple) -> Any:
    return distribute(unpickle(file), *arguments)


def _make_class(base: type, make_reducer: Callable[[], Reducer]) -> type:
    base = getattr(base, "_reduces_for", base)

    class Distributed(base):
        _reduces_for = base

        def __init__(self, *args: Any, **kwargs: Any):
            super().__init__(*args, **kwargs)
            self._use(make_reducer())

        def _use(self, reducer: Reducer) -> None:
            if reducer.helper:
                for name in "gradient_accumulation_steps", "ema_overwrite_frequency":
                    if getattr(self, name, None):
                        raise ValueError(
                            f"hvd.DistributedOptimizer(backward_passes_per_step="
                            f"{reducer.helper.backward_passes_per_step}) of an optimizer with "
                            f"{name}={getattr(self, name)}: that counts iterations, which are "
                            "passes then and not steps. Use one of the two.")
            self._reducer = reducer

        def __reduce__(self) -> tuple:
            """As Keras pickles an optimizer: its configuration, without its state."""
            _, (file,) = super().__reduce__()
            return _distribute_unpickled, (base._unpickle_model, file, make_reducer.args)

        @property
        def variables(self) -> list:
            from horovod._keras import CallableList
            return CallableList(super().variables)

        @property
        def process_set(self) -> Any:
            return self._reducer.process_set

        @property
        def _agg_helper(self) -> LocalGradientAggregationHelperEager | None:
            return self._reducer.helper

        def register_local_var(self, var: Any) -> None:
            """Leaves the gradient of `var`, a tf.Variable or a Keras variable, to this rank."""
            self._reducer.register_local(var)

        def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list:
            """Pairs of a reduced gradient and its variable, for apply_gradients().

            There they are not reduced again, unless they have been changed in between: to clip
            them, use the arguments that every Keras optimizer has for that.
            """
            return self._compute_gradients(loss, var_list, None, tape)

        def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None,
                               tape: Any = None) -> list:
            tape = tape or tf.GradientTape()
            if callable(loss):
                with tape:
                    loss = loss()
            variables = list(var_list() if callable(var_list) else var_list)
            gradients = tape.gradient(loss, [tf_variable(variable) for variable in variables],
                                      grad_loss)
            return list(zip(self._reducer.reduce(gradients, variables), variables))

        def apply(self, grads: Sequence, trainable_variables: Sequence | None = None) -> None:
            xla.refuse(xla.FOR_XLA, "call model.compile() with jit_compile=False or without "
                       "jit_compile")
            grads = list(grads)
            if trainable_variables is None:
                variables = self._trainable_variables
                if len(grads) != len(variables):  # an error, or nothing to do
                    super().apply(grads)
                    return
            else:
                variables = trainable_variables = list(trainable_variables)
                if self._reducer.helper and not self.built:  # a branch can make no variables
                    with keras.name_scope(self.name, caller=self):
                        self.build(trainable_variables)
            grads = self._reducer.reduce(grads, variables)
            if not self._reducer.helper:
                super().apply(grads, trainable_variables)
                return

            def step() -> tf.Tensor:
                super(Distributed, self).apply(grads, trainable_variables)
                return tf.constant(True)

            def no_step() -> tf.Tensor:
                self._iterations.assign_add(1)
                return tf.constant(False)

            tf.cond(tf.equal(self._reducer.helper.counter, 0), step, no_step)

    # As the class that it wraps, so that what is saved can be loaded without Horovod.
    Distributed.__module__, Distributed.__doc__ = base.__module__, base.__doc__
    Distributed.__name__ = Distributed.__qualname__ = hooks.registered_name(base)
    return Distributed
