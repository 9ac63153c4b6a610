"""Trains a Keras model elastically with fit(); the first worker with rank 1 dies in epoch 2."""

import hashlib
import os
import signal

import horovod.tensorflow.keras as hvd
import keras
import numpy as np
from common import FOLDER

DEAD = FOLDER / "dead"
EPOCHS, DEATH, STEPS = 4, 2, 3

hvd.init()
keras.utils.set_random_seed(hvd.rank())  # only the weights of rank 0 count
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.1)), "mse")
state = hvd.elastic.KerasState(model, batch=0, epoch=0)


def note(text: str) -> None:
    with open(FOLDER / f"notes.{os.environ['HOROVOD_HOSTNAME']}", "a") as file:
        file.write(text + "\n")


class Death(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if state.epoch == DEATH and batch == 1 and hvd.rank() == 1 and not DEAD.exists():
            DEAD.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@hvd.elastic.run
def train(state: hvd.elastic.KerasState) -> None:
    iterations = int(model.optimizer.iterations)
    note(f"starts at epoch {state.epoch}, iteration {iterations} with {hvd.size()} ranks")
    random = np.random.default_rng(hvd.rank())
    model.fit(
        random.normal(size=(8 * STEPS, 4)), random.normal(size=(8 * STEPS, 2)),
        batch_size=8, shuffle=False, epochs=EPOCHS - state.epoch, verbose=0,
        callbacks=[Death(), hvd.elastic.UpdateEpochStateCallback(state),
                   hvd.elastic.UpdateBatchStateCallback(state),
                   hvd.elastic.CommitStateCallback(state, batches_per_commit=100)])


train(state)
weights = b"".join(part.tobytes() for part in model.get_weights())
note(f"ends with {int(model.optimizer.iterations)}, {hashlib.sha256(weights).hexdigest()}")
hvd.shutdown()
