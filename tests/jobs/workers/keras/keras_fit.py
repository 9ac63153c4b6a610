"""fit() with distributed optimizers and callbacks, beside what NumPy makes of the same numbers.

The loss is linear in the weights, so that a batch's gradient does not depend on them.
"""

from __future__ import annotations

from unittest import mock

import horovod.keras as hvd_keras
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from common import FOLDER, RANK
from keras_common import LEGACY, SIZE, draw, error_of, keras, network

BATCH, STEPS, EPOCHS, WARMUP = 2, 3, 4, 2
RATE, MOMENTUM = 0.4, 0.9
FIT = {"batch_size": BATCH, "shuffle": False, "verbose": 0}


def linear(targets: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(targets * outputs, axis=-1)


def data(rank: int) -> tuple[np.ndarray, np.ndarray]:
    return draw(rank, 0, shape=(BATCH * STEPS, 2)), draw(rank, 1, shape=(BATCH * STEPS, 1))


def mean_gradient(step: int) -> np.ndarray:
    """Of the two weights and the bias, over the batches of all ranks."""
    rows = slice(step * BATCH, (step + 1) * BATCH)
    parts = [(inputs[rows], targets[rows]) for inputs, targets in map(data, range(SIZE))]
    return np.mean([np.append((x * y).mean(0), y.mean(0)) for x, y in parts], axis=0)


def rates() -> np.ndarray:
    """By epoch and step: a warmup, the full rate for an epoch, a tenth of it."""
    expected = np.full((EPOCHS, STEPS), RATE)
    for epoch in range(WARMUP):
        for step in range(STEPS):
            progress = epoch + (step + 1) / STEPS
            expected[epoch, step] = RATE / SIZE * (progress * (SIZE - 1) / WARMUP + 1)
    expected[WARMUP + 1:] = RATE / 10
    return expected


def weights_of(model: object) -> list:
    return np.concatenate([np.ravel(part) for part in model.get_weights()]).astype(float).tolist()


class Recorder(keras.callbacks.Callback):
    """What callbacks after this one are given."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []
        self.rates: list[float] = []

    def on_train_batch_end(self, batch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate.numpy()))

    def on_epoch_end(self, epoch, logs=None):
        self.losses.append(float(logs["loss"]))


def callbacks() -> dict:
    model = network(RANK + 1.0)  # as on rank 0 after the broadcast
    optimizer = keras.optimizers.SGD(RATE, momentum=MOMENTUM)
    model.compile(hvd.DistributedOptimizer(optimizer), linear)
    before, after = Recorder(), Recorder()
    history = model.fit(*data(RANK), epochs=EPOCHS, callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        before,
        hvd.callbacks.MetricAverageCallback(),
        after,
        hvd.callbacks.LearningRateWarmupCallback(RATE, warmup_epochs=WARMUP, verbose=1),
        hvd.callbacks.LearningRateScheduleCallback(RATE, lambda epoch: 1.0, start_epoch=WARMUP,
                                                   end_epoch=WARMUP + 1),
        hvd.callbacks.LearningRateScheduleCallback(RATE, lambda epoch: 0.1,
                                                   start_epoch=WARMUP + 1),
    ], **FIT).history

    weights, velocity, old = np.ones(3), np.zeros(3), RATE
    for rate, step in zip(rates().ravel(), list(range(STEPS)) * EPOCHS):
        velocity = MOMENTUM * rate / old * velocity - rate * mean_gradient(step)
        weights, old = weights + velocity, rate
    return {
        "weights": weights_of(model), "expected weights": weights.tolist(),
        "rates": after.rates, "expected rates": rates().ravel().tolist(),
        "logged rates": [float(rate) for rate in history["lr"]],
        "losses": [before.losses, after.losses, [float(loss) for loss in history["loss"]]],
    }


def local_variables() -> dict:
    model = network(RANK + 1.0)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.0)), linear)
    bias = model.layers[-1].bias
    model.fit(*data(RANK), callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(1, local_variables=bias)], **FIT)
    return {"weights": weights_of(model)}


def passes() -> dict:
    """Three batches an epoch, two epochs: reduced every second batch; the best loss is kept."""
    model = network(1.0)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(RATE), backward_passes_per_step=2,
                                         average_aggregated_gradients=True)
    model.compile(optimizer, linear)
    best = hvd_keras.callbacks.BestModelCheckpoint(monitor="loss")
    best.filepath = str(FOLDER / f"best-{RANK}.keras")
    model.fit(*data(RANK), epochs=2, callbacks=[] if LEGACY else [best], **FIT)
    moved = sum(mean_gradient(step) for step in range(STEPS))
    return {"weights": weights_of(model), "expected": (1.0 - RATE * moved).tolist()}


def mixed_precision() -> dict:
    """In the second of three steps, only the last rank's gradients are not finite."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    model = network(1.0)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(RATE)), linear)
    keras.mixed_precision.set_global_policy("float32")
    inputs, targets = data(RANK)
    after = []
    for step in range(3):
        before = model.get_weights()
        scale = np.inf if step == 1 and RANK == SIZE - 1 else 1.0
        model.train_on_batch(inputs, targets * scale)
        after.append({
            "moved": any((a != b).any() for a, b in zip(before, model.get_weights())),
            "scale": float(model.optimizer.dynamic_scale),
        })
    return {"kind": type(model.optimizer).__name__, "steps": after}


def in_bfloat16() -> dict:
    """Weights and gradients are bfloat16; the ranks begin with different weights."""
    keras.mixed_precision.set_global_policy("bfloat16")
    model = network(RANK + 1.0)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(RATE)), linear)
    keras.mixed_precision.set_global_policy("float32")
    model.fit(*data(RANK), callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)], **FIT)
    weights = weights_of(model)
    return {"types": [str(variable.dtype) for variable in model.weights], "weights": weights,
            "moved": all(weight != 1.0 for weight in weights)}


def compilation() -> dict:
    """jit_compile on a machine that seems to have a GPU."""
    device = mock.Mock(device_type="GPU")
    compiled = {}
    with mock.patch.object(tf.config, "list_physical_devices", lambda kind=None: [device]):
        for name, optimizer in {
            "plain": keras.optimizers.SGD(),
            "distributed": hvd.DistributedOptimizer(keras.optimizers.SGD()),
            "scaled": keras.optimizers.LossScaleOptimizer(
                hvd.DistributedOptimizer(keras.optimizers.SGD())),
        }.items():
            model = network(1.0)
            model.compile(optimizer, linear)
            compiled[name] = bool(model.jit_compile)
    model = network(1.0)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD()), linear, jit_compile=True)
    return {"compiled": compiled, "error": error_of(model.train_on_batch, *data(RANK))}


def run() -> dict:
    parts = [callbacks, local_variables, passes]
    if not LEGACY:
        parts += [mixed_precision, in_bfloat16, compilation]
    return {part.__name__: part() for part in parts}
