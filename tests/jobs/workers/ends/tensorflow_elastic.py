"""What hvd.elastic.run of TensorFlow makes of each error of the function; reports it by name."""

from __future__ import annotations

import tensorflow as tf
from common import report
from horovod.tensorflow import elastic

ERRORS = {
    "shut down": tf.errors.UnknownError(None, None, "Horovod has been shut down. [[{{node a}}]]"),
    "peer": tf.errors.UnknownError(
        None, None, "[../third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error [127.0.0.1]"
        ":1: Connection reset by peer\n\t [[{{node a}}]] [Op:__inference_once_2099]"),
    "planned": tf.errors.UnknownError(
        None, None, "Horovod: a planned reduction failed: x\n\t [[{{node a}}]]"),
    "other": tf.errors.UnknownError(None, None, "Failed to get convolution algorithm."),
    "of the script": KeyError("a bug"),
}


def seen(error: Exception) -> str:
    def train(state: object) -> None:
        raise error

    try:
        elastic.run(train)(None)
    except Exception as raised:
        return type(raised).__name__
    return "nothing"


elastic.run_fn = lambda function, reset: function  # what follows an error is not of interest
report(seen={name: seen(error) for name, error in ERRORS.items()})
