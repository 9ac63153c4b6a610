"""fit() on files in an elastic job: rank 1 dies between two commits and is replaced.

FOLDER DATA: each process notes the batches that it has committed.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import horovod.tensorflow.keras as hvd
import keras
from common import FOLDER
from keras_training import compiled_model, parse

import horovod_opt.io as hio

EPOCHS, COMMIT_EVERY, DEATH = 2, 3, 7
died = FOLDER / "died"
batches: list[list[int]] = []  # of each since the last commit: its numbers


class Commit(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if state.step == DEATH and hvd.rank() == 1 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_batch_end(self, batch, logs=None):
        state.step += 1
        if state.step % COMMIT_EVERY == 0:
            commit()

    def on_train_end(self, logs=None):
        commit()


def commit() -> None:
    try:
        state.commit()
    finally:  # it asks for other hosts after it has saved
        with open(FOLDER / f"notes.{os.getpid()}", "a") as file:
            file.write(json.dumps(batches) + "\n")
        batches.clear()


hvd.init()
model = compiled_model(batches.append)
data = hio.open(sys.argv[2], seed=1, chunk_samples=8, elastic=True)
state = hvd.elastic.KerasState(model, step=0)
hio.elastic.attach(state, data)


@hvd.elastic.run
def train(state: hvd.elastic.KerasState) -> None:
    batches.clear()
    dataset = hio.tensorflow.dataset(data, 8).map(parse).prefetch(4)
    model.fit(dataset, epochs=EPOCHS, verbose=0, shuffle=False,
              callbacks=[hio.keras.Resume(data), Commit()])


train(state)
(FOLDER / f"end.{hvd.rank()}").write_text(
    json.dumps([data.epoch, data.position, state.step, int(model.optimizer.iterations)]))
hvd.shutdown()
