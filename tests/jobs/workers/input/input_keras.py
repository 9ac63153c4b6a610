"""fit() on files, with checkpoints that all ranks share; after each epoch rank 0 evaluates alone.

FOLDER DATA CHECKPOINTS STOP: all ranks stop after so many batches, as if killed; 0: never.
"""

from __future__ import annotations

import sys

import horovod.tensorflow.keras as hvd
import keras
from common import RANK, report
from keras_training import compiled_model, parse

import horovod_opt.io as hio

DATA, CHECKPOINTS, STOP = sys.argv[2], sys.argv[3], int(sys.argv[4])
EPOCHS, EVERY = 3, 2
batches: list[tuple[int, list[int]]] = []  # of each: its epoch and its numbers
alone: list[int] = []  # samples of each evaluation


class Halt(Exception):
    pass


class Watch(keras.callbacks.Callback):
    epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if len(batches) == STOP:
            raise Halt

    def on_epoch_end(self, epoch, logs=None):
        if RANK == 0:
            with hio.open(f"{DATA}/valid.tfrecord", shuffle=False, alone=True) as valid:
                self.model.evaluate(hio.tensorflow.dataset(valid, 10).map(parse), verbose=0)
                alone.append(int(valid.stats()["samples"]))


hvd.init()
watch = Watch()
model = compiled_model(lambda numbers: batches.append((watch.epoch, numbers)))
with hio.open(f"{DATA}/train-*.tfrecord", seed=1, chunk_samples=8) as data:
    dataset = hio.tensorflow.dataset(data, 16).map(parse).prefetch(3)
    try:
        model.fit(dataset, epochs=EPOCHS, verbose=0, shuffle=False, callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hio.keras.Resume(data, CHECKPOINTS, every=EVERY), watch])
    except Halt:
        pass
    place = (data.epoch, data.position)
hvd.shutdown()
report(batches=batches, alone=alone, place=place, iterations=int(model.optimizer.iterations))
