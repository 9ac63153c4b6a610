"""Training ResNet50 on synthetic 96x96 images, batch 4, one intra-op thread: images/s of all ranks.

One intra-op thread leaves a rank no second thread to hide the background thread's CPU use behind.
"""

import tensorflow as tf
from rank import Rank

BATCH = 4
PIXELS = 96
LEARNING_RATE = 0.01


def main() -> None:
    rank = Rank("resnet50")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    rank.init()

    tf.random.set_seed(0)
    model = tf.keras.applications.ResNet50(
        weights=None, input_shape=(PIXELS, PIXELS, 3), classes=1000, classifier_activation=None)
    # The tf.Variable inside each of Keras 3's variables is what every Horovod understands.
    variables = [variable.value for variable in model.trainable_variables]
    images = tf.random.stateless_uniform([BATCH, PIXELS, PIXELS, 3], seed=(0, rank.rank))
    labels = tf.range(BATCH)

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        if rank.hvd:
            tape = rank.hvd.DistributedGradientTape(tape)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(LEARNING_RATE * gradient)
        return loss

    seconds = rank.seconds_per_step(lambda: step(images, labels).numpy(), warm_up=2)
    rank.report({"images_per_second": rank.size * BATCH / seconds})


if __name__ == "__main__":
    main()
