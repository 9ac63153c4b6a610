"""Training one of the networks of Table 6.1 with TensorFlow in mode topo: when in a step the first
gradient is there, and what reading and planning the step's graph took."""

from __future__ import annotations

import functools
import statistics
import time
from typing import Any

import tensorflow as tf
import training
from rank import Rank
from train import Trainer, batches, build, parser, place
from training import WARM_UP

import graph_analysis
import horovod_opt


class Timed:
    """A function that adds up the seconds it takes, and keeps its results."""

    def __init__(self, function: Any):
        functools.update_wrapper(self, function)
        self._function = function
        self.seconds = 0.0
        self.results: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = self._function(*args, **kwargs)
        self.seconds += time.perf_counter() - start
        self.results.append(result)
        return result


class Observed(Trainer):
    """A step says when the first gradient was there: that of the last layer's last variable."""

    def _step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        _, gradients = self._compute(images, labels)
        with tf.control_dependencies([gradients[-1]]):
            ready = tf.timestamp()
        self._update(self._reduce(gradients))
        return ready


def main() -> None:
    # The library calls both through their module; nothing has been read yet.
    read = graph_analysis.read_func_graph = Timed(graph_analysis.read_func_graph)
    analyze = graph_analysis.analyze = Timed(graph_analysis.analyze)
    rank = Rank("train_window", parser=parser())
    rank.init()
    place(rank)
    model = build(rank)
    trainer = Observed(rank, model)
    data = batches(rank, model.input_shape[1])
    waits = []

    def step() -> None:
        begin = time.time()
        waits.append(float(trainer.step(*next(data))) - begin)

    timing = rank.measure(step, WARM_UP)
    largest = max(analyze.results, key=lambda analysis: analysis.nodes)
    training.report(
        rank, timing,
        first_gradient_seconds=statistics.median(waits[-timing.steps:]),
        read_seconds=read.seconds, analyse_seconds=analyze.seconds,
        nodes=largest.nodes, edges=largest.edges,
        buckets=[len(plan.buckets) for plan in horovod_opt.plans() if plan.state == "active"])


if __name__ == "__main__":
    main()
