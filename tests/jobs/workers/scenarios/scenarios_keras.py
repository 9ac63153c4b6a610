"""Scenarios of Keras: fit() with a train_step of its own that reduces the gradients."""

from __future__ import annotations

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf
from common import RANK
from scenario_runs import Results, number, rest

EPOCHS, BATCHES, ROWS = 3, 6, 4


class Model(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = keras.layers.Dense(8, activation="tanh")
        self.normalize = keras.layers.BatchNormalization()
        self.scores = keras.layers.Dense(3)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        return self.scores(self.normalize(self.hidden(inputs), training=training))

    def train_step(self, data: tuple) -> dict:
        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=targets, y_pred=self(inputs, training=True))
        tape = hvd.DistributedGradientTape(tape)
        weights = [variable.value for variable in self.trainable_variables]
        self.optimizer.apply(tape.gradient(loss, weights), self.trainable_variables)
        return {"loss": loss}


class Late(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        rest()


def fit(steps_per_execution: int) -> Results:
    """All weights, equal on all ranks at the start, and losses. The last batch is a smaller one."""
    keras.utils.set_random_seed(1)
    model = Model()
    model.compile(
        optimizer=keras.optimizers.Adam(0.01), loss="mse", jit_compile=False,
        steps_per_execution=steps_per_execution,
    )
    numbers = np.random.default_rng(RANK)
    inputs = numbers.standard_normal((BATCHES * ROWS - 1, 5), dtype=np.float32)
    targets = numbers.standard_normal((BATCHES * ROWS - 1, 3), dtype=np.float32)
    history = model.fit(
        inputs, targets, batch_size=ROWS, epochs=EPOCHS, shuffle=False, verbose=0,
        callbacks=[Late()],
    )
    weights = number("weights", [weight.numpy() for weight in model.weights])
    return {**weights, "losses": np.array(history.history["loss"])}


def single_steps() -> Results:
    return fit(1)


def three_steps() -> Results:
    """Keras runs three steps in one function."""
    return fit(3)


SCENARIOS = (single_steps, three_steps)
