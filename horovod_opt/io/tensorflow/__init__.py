"""The input side for TensorFlow: batches as a tf.data.Dataset."""

from horovod_opt.io.tensorflow.dataset import dataset

__all__ = ["dataset"]
