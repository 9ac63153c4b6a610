"""One allreduce of each size, alone in a tf.function; us each, until its result is there."""

from __future__ import annotations

import argparse

import tensorflow as tf
from rank import Rank

WARM_UP = 20


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, nargs="+", required=True, help="of each allreduce")
    return parser


def main() -> None:
    rank = Rank("sizes", parser=parser())
    rank.init()
    sizes = rank.options.bytes
    rank.seconds /= len(sizes)
    windows = {}
    for size in sizes:
        @tf.function
        def step(x, name=f"sizes.{size}"):
            if rank.hvd:
                x = rank.hvd.allreduce(x, op=rank.hvd.Average, name=name)
            return x[:1]

        x = tf.ones(size // 4)
        windows[size] = rank.measure(lambda: step(x).numpy(), WARM_UP)
    rank.report({"microseconds": {size: 1e6 * one.seconds for size, one in windows.items()},
                 "steps": sum(one.steps for one in windows.values())},
                counters=[one.counters for one in windows.values()])


if __name__ == "__main__":
    main()
