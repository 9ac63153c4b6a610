"""fit() on files, with checkpoints that all ranks share; after each epoch rank 0 evaluates alone.

FOLDER DATA CHECKPOINTS BATCHES: all ranks stop after so many batches, as if killed; 0: never.
"""

from __future__ import annotations

import sys

import horovod.tensorflow.keras as hvd
import keras
import tensorflow as tf
from common import RANK, report
from keras_records import parse

import horovod_opt.io as hio

DATA, CHECKPOINTS, BATCHES = sys.argv[2], sys.argv[3], int(sys.argv[4])
EPOCHS, EVERY = 3, 2
seen: list[tuple[int, list[int]]] = []  # epoch and numbers of each batch
alone: list[int] = []  # samples of each evaluation


class Stopped(Exception):
    pass


class Model(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.epoch = 0
        self(tf.zeros((1, 1)))  # only then are there weights to load

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, batch):
        seen.append((self.epoch, batch[1].numpy().tolist()))
        return super().train_step(batch)


class Watch(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.model.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if len(seen) == BATCHES:
            raise Stopped

    def on_epoch_end(self, epoch, logs=None):
        if RANK == 0:
            with hio.open(f"{DATA}/valid.tfrecord", shuffle=False, alone=True) as valid:
                self.model.evaluate(hio.tensorflow.dataset(valid, 10).map(parse), verbose=0)
                alone.append(int(valid.stats()["samples"]))


hvd.init()
keras.utils.set_random_seed(1)
model = Model()
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse", run_eagerly=True)
with hio.open(f"{DATA}/train-*.tfrecord", seed=1, chunk_samples=8) as data:
    dataset = hio.tensorflow.dataset(data, 16).map(parse).prefetch(3)
    try:
        model.fit(dataset, epochs=EPOCHS, verbose=0, shuffle=False, callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hio.keras.Resume(data, CHECKPOINTS, every=EVERY), Watch()])
    except Stopped:
        pass
    place = (data.epoch, data.position)
hvd.shutdown()
report(seen=seen, alone=alone, place=place, iterations=int(model.optimizer.iterations))
