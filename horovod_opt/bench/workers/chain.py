"""Latency: 20 allreduces of 1 KiB in one tf.function, each needing the one before; us each."""

import tensorflow as tf
from rank import Rank

LENGTH = 20


def main() -> None:
    rank = Rank("chain")
    rank.init()

    @tf.function
    def step(x):
        for i in range(LENGTH):
            x = rank.hvd.allreduce(x, op=rank.hvd.Average, name=f"chain.{i}") if rank.hvd else x + 0
        return x

    x = tf.ones(256)
    window = rank.measure(lambda: step(x).numpy(), warm_up=20)
    rank.report({"microseconds": 1e6 * window.seconds / LENGTH}, counters=window.counters)


if __name__ == "__main__":
    main()
