"""The source of batches where there is no kernel: a generator of Python, which needs its lock for
each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Optional

import tensorflow as tf

from horovod_opt.io.decoding import Found, found
from horovod_opt.io.errors import InputError
from horovod_opt.io.prefetching import prefetched
from horovod_opt.io.reading import Epoch
from horovod_opt.io.tensorflow.elements import Elements
from horovod_opt.io.tensorflow.passes import Passes

AHEAD = 2  # batches that a thread takes out of the node cache before TensorFlow asks


def generated(passes: Passes, elements: Elements) -> tf.data.Dataset:
    """Flat elements."""
    return passes.repeated(tf.data.Dataset.from_generator(
        lambda: _Failing(_once(passes, elements)), output_signature=elements.signature))


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


def _once(passes: Passes, elements: Elements) -> Iterator[tuple]:
    epoch = passes.begin()
    if epoch is not None:
        yield from _flat(passes, elements, epoch)
        passes.over()


def _flat(passes: Passes, elements: Elements, epoch: Epoch) -> Iterator[tuple]:
    data, step, number = passes.data, 0, passes.number
    passes.follow(lambda: step)
    with data.interruptible(), closing(prefetched(_found(passes, epoch), AHEAD)) as batches:
        while (one := _next(passes, batches)) is not None:
            if passes.number != number:
                raise InputError(
                    "the pass was left, as another loop over the same data set has begun")
            step += 1
            if one.holes:
                data.holes.setdefault(one.info.epoch, []).extend(one.holes)
            if step == epoch.batches.steps:
                passes.reading.publish()
            yield elements.flat(one)


def _next(passes: Passes, batches: Iterator[Found]) -> Optional[Found]:
    start = time.perf_counter()
    one = next(batches, None)
    passes.reading.training_waited += time.perf_counter() - start
    return one


def _found(passes: Passes, epoch: Epoch) -> Iterator[Found]:
    for steps in passes.reading.steps_together(epoch):
        yield from found(passes.data, passes.reading.member, steps)
