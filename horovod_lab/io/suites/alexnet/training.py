"""The process of a job of the suite alexnet: trains AlexNet on JPEG files, and saves checkpoints.

    python -m horovod_lab.io.suites.alexnet.training FOLDER OPTIONS RENDEZVOUS PARENT

OPTIONS are those of Options, in JSON. As the source has it (III-B, III-C): names and labels,
shuffled, of which a map reads, decodes and resizes one; Adam; every so many steps all variables are
saved and synced. Publishes `done` when all is copied.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import tensorflow as tf

import horovod_opt.io as hio
from horovod_lab.io.data import jpegs
from horovod_lab.io.suites.stream.consumer import forget
from horovod_lab.io.suites.stream.pipelines import Shape, decode, limited
from horovod_lab.io.testbeds.rendezvous import Rendezvous
from horovod_opt.io.checkpoints.files import sync, walk

CLASSES = 102  # of Caltech 101, with its background
LEARNING_RATE = 1e-4
LAST_POOLING = 6  # pixels, at the source's 224


@dataclass(frozen=True)
class Options:
    """`width`: channels and units as a share of AlexNet's; `every`: steps from checkpoint to
    checkpoint, which go `fast` first, if given, and to `slow`, if given."""

    threads: int
    batch: int
    prefetch: int
    pixels: int
    width: float
    steps: int
    cold: bool
    every: int = 0
    fast: Optional[str] = None
    slow: Optional[str] = None


def alexnet(pixels: int, width: float) -> Any:
    """Five convolutions, three poolings, three layers of all units; what the last pooling gives is
    resized to what it gives of 224 pixels, so that there are as many weights."""
    import keras
    from keras import layers

    def channels(number: int) -> int:
        return max(1, round(number * width))

    def convolve(number: int, size: int, strides: int = 1) -> Any:
        return layers.Conv2D(channels(number), size, strides, "same", activation="relu")

    return keras.Sequential([
        keras.Input((pixels, pixels, 3)),
        convolve(96, 11, 4), layers.MaxPooling2D(3, 2, "same"),
        convolve(256, 5), layers.MaxPooling2D(3, 2, "same"),
        convolve(384, 3), convolve(384, 3), convolve(256, 3), layers.MaxPooling2D(3, 2, "same"),
        layers.Resizing(LAST_POOLING, LAST_POOLING), layers.Flatten(),
        layers.Dense(channels(4096), "relu"), layers.Dense(channels(4096), "relu"),
        layers.Dense(CLASSES)])


def batches(paths: list[str], options: Options) -> tf.data.Dataset:
    """Epochs without end; a file's label is by its number."""
    shape = Shape(options.threads, options.batch, options.prefetch, options.pixels)
    labels = [number % CLASSES for number in range(len(paths))]
    names = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths), seed=1)
    images = names.repeat().map(
        lambda path, label: (decode(tf.io.read_file(path), options.pixels), label),
        num_parallel_calls=options.threads).ignore_errors()
    return limited(images.batch(options.batch), shape)


class Training:
    def __init__(self, options: Options):
        import keras

        self._model = alexnet(options.pixels, options.width)
        self._optimizer = keras.optimizers.Adam(LEARNING_RATE)
        self._optimizer.build(self._model.trainable_variables)
        self._loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.checkpoint = tf.train.Checkpoint(model=self._model, optimizer=self._optimizer)
        shape = (options.batch, options.pixels, options.pixels, 3)
        self.step = tf.function(self._step, input_signature=[
            tf.TensorSpec(shape), tf.TensorSpec(options.batch, tf.int32)])
        self.step(tf.zeros(shape), tf.zeros(options.batch, tf.int32))  # what is only done once

    def _step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = self._loss(labels, self._model(images, training=True))
        variables = self._model.trainable_variables
        self._optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    def write(self, folder: Path) -> None:
        self.checkpoint.write(str(folder / "model"))

    def bytes(self) -> int:
        """Of all variables, which a checkpoint has."""
        return sum(each.numpy().nbytes for each in (*self._model.variables,
                                                    *self._optimizer.variables))


class Checkpoints:
    """To `slow`, with all synced before the training goes on, as the source's; or by a BurstBuffer
    if there is `fast`, too."""

    def __init__(self, options: Options, training: Training, stack: ExitStack):
        self._slow = options.slow and Path(options.slow)
        self._training = training
        self._buffer = stack.enter_context(hio.BurstBuffer(
            options.fast, self._slow / "job", keep=1)) if options.fast else None

    def save(self, step: int) -> None:
        if self._buffer is not None:
            with self._buffer.save(step) as folder:
                self._training.write(folder)
            return
        folder = self._slow / str(step)
        folder.mkdir()
        self._training.write(folder)
        files, folders = walk(folder)
        for path in (*files, *folders, self._slow):
            sync(path)

    def drain(self) -> None:
        if self._buffer is not None:
            self._buffer.drain()


def train(paths: list[str], options: Options, training: Training, checkpoints: Checkpoints
          ) -> dict[str, Any]:
    """`seconds` from the first batch asked for to the end of the last step, or checkpoint;
    `waited_seconds`: of these, for batches; `saved_seconds`: of each checkpoint."""
    waited, saved, begin = 0.0, [], time.monotonic()
    iterator: Iterator = iter(batches(paths, options))
    for step in range(1, options.steps + 1):
        start = time.monotonic()
        batch = next(iterator)
        waited += time.monotonic() - start
        loss = float(training.step(*batch))
        if options.every and step % options.every == 0:
            start = time.monotonic()
            checkpoints.save(step)
            saved.append(time.monotonic() - start)
    seconds = time.monotonic() - begin
    if loss != loss:
        sys.exit("the loss is no number")
    return {"seconds": seconds, "waited_seconds": waited, "saved_seconds": saved, "loss": loss}


def main(folder: str, texts: str, place: str, parent: str) -> None:
    options = Options(**json.loads(texts))
    rendezvous, paths = Rendezvous(Path(place), int(parent)), jpegs.names(Path(folder))
    training = Training(options)
    if options.cold:
        forget(paths)
    else:
        for path in paths:
            Path(path).read_bytes()
    with ExitStack() as stack:
        checkpoints = Checkpoints(options, training, stack)
        rendezvous.publish("ready", None)
        rendezvous.wait_for("go")
        result = train(paths, options, training, checkpoints)
        start = time.monotonic()
        checkpoints.drain()
        whole = result["seconds"] + time.monotonic() - start
    rendezvous.publish("done", {**result, "whole_seconds": whole, "variables_bytes":
                                training.bytes()})


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # threads of frameworks have nothing more to say
