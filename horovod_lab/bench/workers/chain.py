"""Latency: 20 allreduces of 1 KiB in one tf.function, each needing the one before; us each."""

import argparse

import tensorflow as tf
from rank import Rank


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=20, help="of the chain (%(default)s)")
    parser.add_argument("--bytes", type=int, default=1024, help="of each (%(default)s)")
    return parser


def main() -> None:
    rank = Rank("chain", parser=parser())
    rank.init()
    length = rank.options.length

    @tf.function
    def step(x):
        for i in range(length):
            x = rank.hvd.allreduce(x, op=rank.hvd.Average, name=f"chain.{i}") if rank.hvd else x + 0
        return x[:1]

    x = tf.ones(rank.options.bytes // 4)
    window = rank.measure(lambda: step(x).numpy(), warm_up=20)
    rank.report({"microseconds": 1e6 * window.seconds / length}, counters=window.counters)


if __name__ == "__main__":
    main()
