"""A Keras callback raises on the last rank in the middle of an epoch; in every mode.

Rank 0 saves the weights after each epoch and finds them again afterwards.
"""

import faulthandler
import hashlib
import sys

import horovod.keras as hvd
import keras
import numpy as np
from common import FOLDER, RANK, graph_plans, report, running, start_mpi
from horovod.tensorflow.mpi_ops import _basics

EPOCHS, FAULT, BATCHES = 5, 3, 4


class Bug(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == FAULT and batch == 1 and RANK == hvd.size() - 1:
            raise KeyError("a bug in a callback")


class Save(keras.callbacks.Callback):
    def __init__(self, name: str):
        super().__init__()
        self.path, self.saves = FOLDER / f"{name}.weights.h5", []

    def on_epoch_end(self, epoch, logs=None):
        part = FOLDER / "part.weights.h5"
        self.model.save_weights(part)
        part.rename(self.path)
        self.saves.append(digest(self.model))


def digest(model: keras.Model) -> str:
    return hashlib.sha256(b"".join(part.tobytes() for part in model.get_weights())).hexdigest()


def network() -> keras.Model:
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])


def train(name: str) -> dict:
    model = network()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
    random = np.random.default_rng(RANK)
    save, error = Save(name), ""
    try:
        model.fit(
            random.normal(size=(8 * BATCHES, 4)), random.normal(size=(8 * BATCHES, 2)),
            batch_size=8, shuffle=False, epochs=EPOCHS, verbose=0,
            callbacks=[*([save] if RANK == 0 else []), Bug()],
        )
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    outcome = {"error": error, "states": [plan.state for plan in graph_plans()]}
    if RANK == 0:
        again = network()
        again.load_weights(save.path)
        outcome.update(saves=save.saves, found=digest(again))
    return outcome


faulthandler.dump_traceback_later(100)
start_mpi(_basics.MPI_LIB_CTYPES)
outcomes = {}
for mode in sys.argv[2:]:
    with running(hvd, mode):
        outcomes[mode] = train(mode)
report(**outcomes)
