"""Train on JPEG files with Horovod's elastic TensorFlow: ranks come and go, no sample is lost.

    horovodrun -np 2 --min-np 1 --host-discovery-script ./hosts.sh \
        python examples/tensorflow_photographs_elastic.py

hosts.sh prints lines such as localhost:2; change them while the training runs. The batches that end
an epoch have other sizes than the others: what each of them weighs is printed.
"""

import horovod.tensorflow as hvd
import keras
import photographs
import tensorflow as tf
from tensorflow_photographs import decode, network, parse_arguments

import horovod_opt.io as hio

COMMIT_EVERY = 5  # batches


def main() -> None:
    arguments = parse_arguments()
    hvd.init()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    keras.utils.set_random_seed(1)
    folder = photographs.make(arguments.folder, arguments.images, 1)
    data = hio.open(folder / "train", seed=1, elastic=True)
    model, optimizer = network(), keras.optimizers.SGD(0.01, momentum=0.9)
    state = hvd.elastic.TensorFlowKerasState(model, optimizer)
    hio.elastic.attach(state, data)
    mean_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def learn(images: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = mean_loss(labels, model(images, training=True), weights)
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    @hvd.elastic.run
    def train(state: hvd.elastic.TensorFlowKerasState) -> None:
        # Made for the ranks that there are now. With global_batch_size= instead, a batch of all
        # ranks together would stay as it is when ranks come or go.
        batches = hio.tensorflow.dataset(data, arguments.batch_size, with_info=True)
        decoded = batches.map(lambda batch, info: (decode(batch, info), info)).prefetch(2)
        step = tf.function(learn, reduce_retracing=True)
        while data.epoch < arguments.epochs:
            for batch, info in decoded:
                step(*batch)
                data.taken(info)  # what TensorFlow has fetched ahead does not count
                say({name: value.numpy() for name, value in info.items()})
                if info["step"] % COMMIT_EVERY == 0:
                    state.commit()
            state.commit()

    def say(info: dict) -> None:
        if len(data) - info["end"] < arguments.batch_size * hvd.size():
            print(f"rank {hvd.rank()} of {hvd.size()}, epoch {info['epoch'] + 1}: {info['size']} "
                  f"of the samples {info['start']} to {info['end'] - 1}, weight "
                  f"{info['weight']:.3f}", flush=True)

    train(state)
    if hvd.rank() == 0:
        print(f"{data.epoch} epochs of {len(data)} samples", flush=True)
    data.close()


if __name__ == "__main__":
    main()
