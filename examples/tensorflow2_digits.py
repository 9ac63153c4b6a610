"""Train a small CNN on handwritten digits with Horovod and TensorFlow's own training loop.

    horovodrun -np 2 python examples/tensorflow2_digits.py
    HOROVOD_OPT_MODE=topo HOROVOD_OPT_STATS=1 horovodrun -np 2 python examples/tensorflow2_digits.py
"""

import time

import digits
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf


class Network(tf.Module):
    """Two 3x3 convolutions, one pooling, two dense layers: 39,000 weights."""

    def __init__(self, seed: int):
        super().__init__()
        random = tf.random.Generator.from_seed(seed)

        def weights(*shape: int) -> tf.Variable:
            fan_in = np.prod(shape[:-1])
            return tf.Variable(random.normal(shape, stddev=np.sqrt(2.0 / fan_in)))

        self.kernels = [weights(3, 3, 1, 16), weights(3, 3, 16, 32)]
        self.kernel_biases = [tf.Variable(tf.zeros(16)), tf.Variable(tf.zeros(32))]
        self.matrices = [weights(4 * 4 * 32, 64), weights(64, 10)]
        self.matrix_biases = [tf.Variable(tf.zeros(64)), tf.Variable(tf.zeros(10))]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """(batch, 8, 8) pixels to (batch, 10) logits."""
        x = images[..., tf.newaxis]
        for kernel, bias in zip(self.kernels, self.kernel_biases):
            x = tf.nn.relu(tf.nn.conv2d(x, kernel, strides=1, padding="SAME") + bias)
        x = tf.reshape(tf.nn.max_pool2d(x, 2, 2, "VALID"), [-1, 4 * 4 * 32])
        x = tf.nn.relu(x @ self.matrices[0] + self.matrix_biases[0])
        return x @ self.matrices[1] + self.matrix_biases[1]


class Momentum(tf.Module):
    """Stochastic gradient descent with momentum 0.9."""

    def __init__(self, variables):
        super().__init__()
        self.learning_rate = tf.Variable(0.0, trainable=False)
        self.velocities = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def apply(self, gradients, variables) -> None:
        for gradient, variable, velocity in zip(gradients, variables, self.velocities):
            velocity.assign(0.9 * velocity + gradient)
            variable.assign_sub(self.learning_rate * velocity)


def use_own_gpu() -> None:
    """Without this every rank of a node would take the memory of all its GPUs."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")


def main() -> None:
    arguments = digits.parse_arguments(__doc__.splitlines()[0], learning_rate=0.02)
    hvd.init()
    use_own_gpu()
    data = digits.load()
    steps = digits.steps_per_epoch(len(data.train_images), arguments.batch_size, hvd.size())

    # Ranks start with different weights; the broadcast below makes them equal.
    network = Network(arguments.seed + hvd.rank())
    variables = network.trainable_variables
    optimizer = Momentum(variables)
    # An N times larger batch allows an N times larger step (Goyal et al., arXiv:1706.02677).
    learning_rate = arguments.learning_rate * hvd.size()

    @tf.function
    def train_step(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, network(images)))
        tape = hvd.DistributedGradientTape(tape)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    @tf.function
    def correct_predictions(images, labels):
        hits = tf.equal(tf.argmax(network(images), axis=1), labels)
        return hvd.allreduce(tf.reduce_sum(tf.cast(hits, tf.float32)), op=hvd.Sum)

    @tf.function
    def mean_over_ranks(value):
        return hvd.allreduce(value, op=hvd.Average)

    def test_accuracy() -> float:
        part = slice(hvd.rank(), None, hvd.size())
        correct = correct_predictions(data.test_images[part], data.test_labels[part])
        return float(correct) / len(data.test_images)

    start = time.perf_counter()
    with digits.Progress(hvd.rank(), arguments.epochs, steps) as progress:
        for epoch in range(arguments.epochs):
            losses = []
            optimizer.learning_rate.assign(
                digits.learning_rate(learning_rate, epoch, arguments.epochs))
            for step, (images, labels) in enumerate(digits.batches(
                    data.train_images, data.train_labels, arguments.batch_size, epoch,
                    arguments.seed, hvd.rank(), hvd.size())):
                losses.append(float(train_step(images, labels)))
                if epoch == 0 and step == 0:
                    hvd.broadcast_variables(network.variables, root_rank=0)
                    hvd.broadcast_variables(optimizer.variables, root_rank=0)
                progress.step()
            accuracy = test_accuracy()
            loss = float(mean_over_ranks(tf.constant(np.mean(losses))))
            progress.epoch(epoch, loss, accuracy)
    seconds = time.perf_counter() - start

    weights = [variable.numpy() for variable in network.variables]
    digests = hvd.allgather(tf.constant(digits.digest(weights))).numpy()
    trained_on = arguments.epochs * steps * arguments.batch_size * hvd.size()
    if arguments.save and hvd.rank() == 0:
        tf.train.Checkpoint(network=network).write(str(arguments.save))
    digits.finish(hvd.rank(), digests, accuracy, trained_on, seconds)


if __name__ == "__main__":
    main()
