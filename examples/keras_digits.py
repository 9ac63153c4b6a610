"""Train a small CNN on handwritten digits with Horovod and Keras: compile() and fit().

    horovodrun -np 2 python examples/keras_digits.py
    HOROVOD_OPT_MODE=topo HOROVOD_OPT_STATS=1 horovodrun -np 2 python examples/keras_digits.py
"""

import time

import digits
import horovod.tensorflow.keras as hvd
import keras
import tensorflow as tf


def network(seed: int) -> keras.Model:
    """(batch, 8, 8) pixels to (batch, 10) logits; 39,000 weights."""
    keras.utils.set_random_seed(seed)
    layers = keras.layers
    return keras.Sequential([
        keras.Input((8, 8)),
        layers.Reshape((8, 8, 1)),
        layers.Conv2D(16, 3, padding="same", activation="relu"),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
        layers.Dense(10),
    ])


def use_own_gpu() -> None:
    """Without this every rank of a node would take the memory of all its GPUs."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")


class Shares(keras.utils.PyDataset):
    """This rank's share of each epoch; Keras asks for a batch by its number."""

    def __init__(self, data: digits.Digits, batch_size: int, seed: int):
        super().__init__()
        self._data, self._batch_size, self._seed = data, batch_size, seed
        self._epoch = 0
        self._draw()

    def __len__(self) -> int:
        return digits.steps_per_epoch(len(self._data.train_images), self._batch_size, hvd.size())

    def __getitem__(self, step: int) -> tuple:
        return self._batches[step]

    def on_epoch_end(self) -> None:
        self._epoch += 1
        self._draw()

    def _draw(self) -> None:
        self._batches = list(digits.batches(
            self._data.train_images, self._data.train_labels, self._batch_size, self._epoch,
            self._seed, hvd.rank(), hvd.size()))


class ShowProgress(keras.callbacks.Callback):
    def __init__(self, progress: digits.Progress):
        super().__init__()
        self._progress = progress

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._progress.step()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._progress.epoch(epoch, logs["loss"], logs["val_accuracy"])


def main() -> None:
    arguments = digits.parse_arguments(__doc__.splitlines()[0], learning_rate=0.02)
    if arguments.save and arguments.save.suffix != ".keras":
        raise SystemExit(f"--save {arguments.save}: Keras saves models as FILE.keras")
    hvd.init()
    use_own_gpu()
    data = digits.load()
    shares = Shares(data, arguments.batch_size, arguments.seed)

    # An N times larger batch allows an N times larger step, once the weights have settled a little
    # (Goyal et al., arXiv:1706.02677).
    learning_rate = arguments.learning_rate * hvd.size()
    optimizer = keras.optimizers.SGD(learning_rate, momentum=0.9)
    # Ranks start with different weights; the first callback makes them equal.
    model = network(arguments.seed + hvd.rank())
    model.compile(
        optimizer=hvd.DistributedOptimizer(optimizer),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"])

    warmup = min(3, arguments.epochs)
    part = slice(hvd.rank(), None, hvd.size())
    start = time.perf_counter()
    with digits.Progress(hvd.rank(), arguments.epochs, len(shares)) as progress:
        model.fit(
            shares, epochs=arguments.epochs, shuffle=False, verbose=0,
            validation_data=(data.test_images[part], data.test_labels[part]),
            callbacks=[
                hvd.callbacks.BroadcastGlobalVariablesCallback(root_rank=0),
                hvd.callbacks.MetricAverageCallback(),
                hvd.callbacks.LearningRateWarmupCallback(learning_rate, warmup_epochs=warmup),
                hvd.callbacks.LearningRateScheduleCallback(
                    learning_rate, start_epoch=warmup,
                    multiplier=lambda epoch: digits.learning_rate(1.0, epoch, arguments.epochs)),
                ShowProgress(progress),
            ])
    seconds = time.perf_counter() - start

    _, accuracy = model.evaluate(data.test_images, data.test_labels, verbose=0)
    digests = hvd.allgather(digits.digest(model.get_weights())).numpy()
    trained_on = arguments.epochs * len(shares) * arguments.batch_size * hvd.size()
    if arguments.save and hvd.rank() == 0:
        model.save(arguments.save)
    digits.finish(hvd.rank(), digests, accuracy, trained_on, seconds)


if __name__ == "__main__":
    main()
