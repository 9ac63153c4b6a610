"""Training one of the networks of Table 6.1 with TensorFlow: images/s of all ranks, and with
--separate where a step's time goes."""

from __future__ import annotations

import argparse
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import tensorflow as tf
import training
from models import CLASSES, NETWORKS
from rank import Rank, Timing
from training import LEARNING_RATE, WARM_UP


def parser() -> argparse.ArgumentParser:
    parser = training.parser(__doc__, NETWORKS, pixels=None)
    parser.add_argument("--images", type=Path,
                        help="folder of TFRecords with JPEGs; without it the input is synthetic")
    parser.add_argument("--separate", action="store_true",
                        help="reduce the gradients after the computation, as the source did")
    parser.add_argument("--bf16", action="store_true",
                        help="gradients travel in bfloat16: hvd.Compression.bf16")
    parser.add_argument("--strategy", action="store_true",
                        help="MultiWorkerMirroredStrategy reduces the gradients, not Horovod")
    return parser


def place(rank: Rank) -> None:
    """A GPU of its own for each rank, where there are any, and few threads."""
    tf.config.threading.set_intra_op_parallelism_threads(rank.options.threads)
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        gpu = gpus[rank.local_rank % len(gpus)]
        tf.config.set_visible_devices(gpu, "GPU")
        tf.config.experimental.set_memory_growth(gpu, True)


def build(rank: Rank) -> tf.keras.Model:
    """The model, if the memory is large enough for it; the same weights on every rank."""
    options = rank.options
    tf.keras.utils.set_random_seed(0)
    model = NETWORKS[options.model](*([options.pixels] if options.pixels else []))
    values = sum(layer.count_params() for layer in model.layers)
    activations = sum(tf.TensorShape(layer.output.shape[1:]).num_elements()
                      for layer in model.layers if layer.trainable_weights)
    # Weights, gradients and their sums; of the activations those that the gradients need.
    training.require_memory(rank, options.model, 4 * (3 * values + options.batch * activations))
    return model


def batches(rank: Rank, pixels: int) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Images (batch, pixels, pixels, 3) in [0, 1] and labels (batch,), without end."""
    batch = rank.options.batch
    if rank.options.images:
        from images import training_images

        yield from training_images(rank.options.images, batch, pixels, rank.rank, rank.size)
    images = tf.random.stateless_uniform([batch, pixels, pixels, 3], seed=(0, rank.rank))
    labels = tf.range(batch) % CLASSES
    while True:
        yield images, labels


class Trainer:
    """Forward and backward pass, reduction of the gradients, update; together or one by one."""

    def __init__(self, rank: Rank, model: tf.keras.Model):
        self.hvd = rank.hvd
        self.compression = {}
        if rank.hvd and rank.options.bf16:
            self.compression = {"compression": rank.hvd.Compression.bf16}
        self.model = model
        # The tf.Variable inside each of Keras 3's variables is what every Horovod understands.
        self.variables = [variable.value for variable in model.trainable_variables]
        self.step = tf.function(self._step)
        self.compute = tf.function(self._compute)
        self.reduce = tf.function(self._reduce)
        self.update = tf.function(self._update)

    def _compute(self, images: tf.Tensor, labels: tf.Tensor, distributed: bool = False):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(
                labels, self.model(images, training=True)))
        if distributed:
            tape = self.hvd.DistributedGradientTape(tape, **self.compression)
        return loss, tape.gradient(loss, self.variables)

    def _reduce(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        return [self.hvd.allreduce(gradient, op=self.hvd.Average, name=f"gradient.{number}")
                for number, gradient in enumerate(gradients)]

    def _update(self, gradients: list[tf.Tensor]) -> None:
        for variable, gradient in zip(self.variables, gradients):
            variable.assign_sub(LEARNING_RATE * gradient)

    def _step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        loss, gradients = self._compute(images, labels, distributed=self.hvd is not None)
        self._update(gradients)
        return loss


def use_strategy(rank: Rank) -> None:
    """Makes `rank.hvd` what reduces gradients as Horovod would: MultiWorkerMirroredStrategy,
    between processes of one host.

    The variables stay the workers' own: all of them begin with the same values and get the same
    gradients, so that only the strategy's reduction is measured."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        workers = [f"127.0.0.1:{port}" for port in rank.allgather(probe.getsockname()[1])]
    os.environ["TF_CONFIG"] = json.dumps({
        "cluster": {"worker": workers}, "task": {"type": "worker", "index": rank.rank}})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    class Tape:
        """As DistributedGradientTape."""

        def __init__(self, tape: tf.GradientTape):
            self._tape = tape

        def gradient(self, loss: tf.Tensor, variables: list[tf.Variable]) -> list[tf.Tensor]:
            gradients = self._tape.gradient(loss, variables)

            def reduce() -> list[tf.Tensor]:
                # The strategy reduces what was made on a device of its own.
                on_device = [tf.identity(gradient) for gradient in gradients]
                return tf.distribute.get_replica_context().all_reduce(
                    tf.distribute.ReduceOp.MEAN, on_device)

            return strategy.run(reduce)

    rank.hvd = SimpleNamespace(DistributedGradientTape=Tape)


def separated(rank: Rank, trainer: Trainer, data: Iterator) -> tuple[Timing, dict[str, float]]:
    """A timing, and the seconds of a step of this rank in each of its parts.

    `computation` ends when the gradients are there; `waiting` when the last rank of this host has
    its own; `data` is what the counters count, and `negotiation` what is left of the reduction.
    """
    ends: list[tuple[float, float]] = []  # of the computation, and of the reduction

    def step() -> None:
        images, labels = next(data)
        _, gradients = trainer.compute(images, labels)
        tf.test.experimental.sync_devices()
        computed = time.monotonic()
        reduced = trainer.reduce(gradients)
        tf.test.experimental.sync_devices()
        end = time.monotonic()
        trainer.update(reduced)
        tf.test.experimental.sync_devices()
        ends.append((computed, end))

    timing = rank.measure(step, WARM_UP)
    ends_of_steps = ends[-timing.steps:]
    # Clocks are the same on one host only.
    times = rank.allgather([socket.gethostname(), [computed for computed, _ in ends_of_steps]])
    last = [max(step) for step in zip(*(of_rank for host, of_rank in times
                                        if host == socket.gethostname()))]
    reduction = sum(reduced - computed for computed, reduced in ends_of_steps) / timing.steps
    waiting = sum(max(0.0, latest - computed)
                  for latest, (computed, _) in zip(last, ends_of_steps)) / timing.steps
    data_seconds = (timing.counters or {}).get("data_seconds", 0.0) / timing.steps
    return timing, {
        "computation": timing.seconds - reduction, "waiting": waiting, "data": data_seconds,
        "negotiation": max(0.0, reduction - waiting - data_seconds)}


def train(rank: Rank, step: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], data: Iterator) -> Timing:
    return rank.measure(lambda: step(*next(data)).numpy(), WARM_UP)


def main() -> None:
    rank = Rank("train", parser=parser())
    rank.init()
    place(rank)
    if rank.options.strategy:
        use_strategy(rank)
    model = build(rank)
    trainer = Trainer(rank, model)
    data = batches(rank, model.input_shape[1])
    parts = {}
    if rank.options.separate:
        timing, parts = separated(rank, trainer, data)
    else:
        timing = train(rank, trainer.step, data)
    training.report(rank, timing, parts=parts)


if __name__ == "__main__":
    main()
