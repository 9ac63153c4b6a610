"""Train a small CNN on JPEG files with Horovod, Keras and this project's input side.

    horovodrun -np 2 python examples/tensorflow_photographs.py
    HOROVOD_OPT_MODE=topo horovodrun -np 4 python examples/tensorflow_photographs.py --resume

Each node reads each byte once an epoch, and each sample is seen exactly once, by one rank. With
--resume a training that was stopped goes on after its last checkpoint, on any number of ranks.
"""

import argparse
from pathlib import Path

import horovod.tensorflow.keras as hvd
import keras
import photographs
import tensorflow as tf

import horovod_opt.io as hio


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build"), help="(%(default)s)")
    parser.add_argument("--images", type=int, default=1000, help="of each class (%(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="of a rank (%(default)s)")
    parser.add_argument("--resume", action="store_true",
                        help="keep a checkpoint in the folder, and go on with it")
    return parser.parse_args()


def decode(batch, info):
    """(k, 64, 64, 3) pixels, k classes and k equal weights, from k files."""
    files, labels = batch
    pixels = tf.map_fn(lambda file: tf.io.decode_jpeg(file, channels=3), files,
                       fn_output_signature=tf.TensorSpec([64, 64, 3], tf.uint8))
    # The last batches may have other sizes: the weight makes every sample count alike.
    weights = tf.fill([tf.size(labels)], info["weight"])
    return tf.cast(pixels, tf.float32) / 255, labels, weights


def network() -> keras.Model:
    """(batch, 64, 64, 3) pixels to (batch, 2) logits."""
    layers = keras.layers
    return keras.Sequential([
        keras.Input((64, 64, 3)),
        layers.Conv2D(16, 5, strides=2, activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Flatten(), layers.Dense(2)])


def main() -> None:
    arguments = parse_arguments()
    hvd.init()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    keras.utils.set_random_seed(1)
    folder = photographs.make(arguments.folder, arguments.images, arguments.images // 4)
    training = hio.open(folder / "train", seed=1)
    validation = hio.open(folder / "validation", shuffle=False)
    batches = hio.tensorflow.dataset(training, arguments.batch_size, with_info=True)
    test_batches = hio.tensorflow.dataset(validation, 64, with_info=True)

    model = network()
    optimizer = keras.optimizers.SGD(0.01 * hvd.size(), momentum=0.9)
    model.compile(hvd.DistributedOptimizer(optimizer),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    checkpoints = arguments.folder / "checkpoints" if arguments.resume else None
    history = model.fit(
        batches.map(decode).prefetch(2), validation_data=test_batches.map(decode).prefetch(2),
        epochs=arguments.epochs, shuffle=False, verbose=0,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                   hvd.callbacks.MetricAverageCallback(),
                   hio.keras.Resume(training, checkpoints)])
    stats = training.stats()
    if hvd.rank() == 0:
        for epoch, accuracy in zip(history.epoch, history.history["val_accuracy"]):
            print(f"epoch {epoch + 1}: {accuracy:.1%} of the validation files", flush=True)
        print(f"rank 0 took {stats['samples']} samples, its node read "
              f"{stats['node_bytes_read']:,} bytes in {stats['node_requests']} requests")
    training.close()
    validation.close()


if __name__ == "__main__":
    main()
