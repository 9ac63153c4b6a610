"""The source of batches where there is no kernel: a generator of Python, which needs its lock for
each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Optional

import tensorflow as tf

from horovod_opt.io.decoder import GoodSamples, read_steps
from horovod_opt.io.errors import InputError
from horovod_opt.io.node_reader.steps import Pass
from horovod_opt.io.prefetcher import prefetch
from horovod_opt.io.tensorflow.elements import Elements
from horovod_opt.io.tensorflow.passes import Passes

AHEAD = 2  # batches that a thread takes out of the node cache before TensorFlow asks


def dataset_from_generator(passes: Passes, elements: Elements) -> tf.data.Dataset:
    """Flat elements."""
    return passes.with_cardinality(tf.data.Dataset.from_generator(
        lambda: _Failing(_one_pass(passes, elements)), output_signature=elements.signature))


class _Failing:
    """Goes on raising what it has raised: a generator would be at its end then, as that of a
    pass."""

    def __init__(self, elements: Iterator[Any]):
        self._elements = elements
        self._error: Optional[BaseException] = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._error is not None:
            raise self._error
        try:
            return next(self._elements)
        except StopIteration:
            raise
        except BaseException as error:
            self._error = error
            raise


def _one_pass(passes: Passes, elements: Elements) -> Iterator[tuple]:
    begun = passes.begin()
    if begun is not None:
        yield from _flat(passes, elements, begun)
        passes.source.end_pass()


def _flat(passes: Passes, elements: Elements, begun: Pass) -> Iterator[tuple]:
    data, step, number = passes.data, 0, passes.number
    passes.follow(lambda: step)
    with data.interruptible(), closing(prefetch(_read_pass(passes, begun), AHEAD)) as batches:
        while (batch := _next(passes, batches)) is not None:
            if passes.number != number:
                raise InputError(
                    "the pass was left, as another loop over the same data set has begun")
            step += 1
            if step == begun.steps:
                passes.source.stats.publish()
            if elements.names is not None:
                elements.names.put(batch.info.epoch, batch.info.step, batch.samples.numbers)
            yield elements.flat(batch)


def _next(passes: Passes, batches: Iterator[GoodSamples]) -> Optional[GoodSamples]:
    start = time.monotonic_ns()
    batch = next(batches, None)
    passes.source.stats.waited_since(start)
    return batch


def _read_pass(passes: Passes, begun: Pass) -> Iterator[GoodSamples]:
    for steps in passes.source.step_groups(begun):
        yield from read_steps(passes.data, passes.source.member, steps)
