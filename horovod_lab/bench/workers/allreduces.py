"""Allreduces in a tf.function, of which there is nothing to compute beside them.

    python allreduces.py chain    latency: each needs the one before; us each
    python allreduces.py small    negotiation: independent ones of 1 KiB; ms a step
    python allreduces.py sizes    one of each of --bytes, alone; us each, until its result is there
"""

from __future__ import annotations

import argparse

import tensorflow as tf
from rank import Rank

TENSORS = 160  # of small
WARM_UP = 20


def parser(workloads: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=workloads)
    parser.add_argument("--length", type=int, default=20, help="of the chain (%(default)s)")
    parser.add_argument("--bytes", type=int, nargs="+", default=[1024],
                        help="of each allreduce of chain and sizes (1024)")
    return parser


def chain(rank: Rank) -> None:
    length = rank.options.length

    @tf.function
    def step(x):
        for i in range(length):
            x = rank.hvd.allreduce(x, op=rank.hvd.Average, name=f"chain.{i}") if rank.hvd else x + 0
        return x[:1]

    x = tf.ones(rank.options.bytes[0] // 4)
    timing = rank.measure(lambda: step(x).numpy(), WARM_UP)
    rank.report({"microseconds": 1e6 * timing.seconds / length}, counters=timing.counters)


def small(rank: Rank) -> None:
    @tf.function
    def step(rows):
        tensors = tf.unstack(rows)
        if rank.hvd:
            tensors = [rank.hvd.allreduce(tensor, op=rank.hvd.Average, name=f"small.{i}")
                       for i, tensor in enumerate(tensors)]
        return tf.stack(tensors)

    rows = tf.random.stateless_normal([TENSORS, 256], seed=(0, 0))
    timing = rank.measure(lambda: step(rows).numpy(), WARM_UP)
    rank.report({"milliseconds": 1e3 * timing.seconds}, counters=timing.counters)


def sizes(rank: Rank) -> None:
    rank.seconds /= len(rank.options.bytes)
    timings = {}
    for size in rank.options.bytes:
        @tf.function
        def step(x, name=f"sizes.{size}"):
            if rank.hvd:
                x = rank.hvd.allreduce(x, op=rank.hvd.Average, name=name)
            return x[:1]

        x = tf.ones(size // 4)
        timings[size] = rank.measure(lambda: step(x).numpy(), WARM_UP)
    rank.report({"microseconds": {size: 1e6 * timing.seconds for size, timing in timings.items()},
                 "steps": sum(timing.steps for timing in timings.values())},
                counters=[timing.counters for timing in timings.values()])


WORKLOADS = {"chain": chain, "small": small, "sizes": sizes}


def main() -> None:
    rank = Rank(parser=parser(list(WORKLOADS)))
    rank.init()
    WORKLOADS[rank.options.workload](rank)


if __name__ == "__main__":
    main()
