"""Negotiation: 160 independent allreduces of 1 KiB in one step of a tf.function; ms a step."""

import tensorflow as tf
from rank import Rank

TENSORS = 160


def main() -> None:
    rank = Rank("small")
    rank.init()

    @tf.function
    def step(rows):
        tensors = tf.unstack(rows)
        if rank.hvd:
            tensors = [rank.hvd.allreduce(tensor, op=rank.hvd.Average, name=f"small.{i}")
                       for i, tensor in enumerate(tensors)]
        return tf.stack(tensors)

    rows = tf.random.stateless_normal([TENSORS, 256], seed=(0, 0))
    window = rank.measure(lambda: step(rows).numpy(), warm_up=20)
    rank.report({"milliseconds": 1e3 * window.seconds}, counters=window.counters)


if __name__ == "__main__":
    main()
