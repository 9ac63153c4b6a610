"""Functions of TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import bits
import horovod.tensorflow as hvd
import model
import numpy as np
import tensorflow as tf
from common import RANK
from horovod.tensorflow.mpi_ops import _basics
from programs import ROWS, Collective, Function
from soak_trouble import Trouble
from tensorflow.python.eager import context

LIBRARY = _basics.MPI_LIB_CTYPES
Sets = dict[tuple[int, ...], hvd.ProcessSet]


def begin() -> None:
    """A round: an eager operation gets the name of the first one that was like it, and ranks on
    which the last round ended early have seen others."""
    context.context().clear_kernel_cache()


def met() -> None:
    """All ranks have come so far."""
    hvd.allreduce(tf.zeros([1]), name="met")


def agree(flag: bool, name: str) -> bool:
    """Whether it is so on all ranks."""
    return bool(hvd.allreduce(tf.constant(int(flag)), op=hvd.Min, name=re.sub(r"\W", "_", name)))


def flush_denormals(_: bool) -> None:
    """TensorFlow's threads always do."""


def tensor_name(about: Collective, name: str) -> str:
    return name


def compile_function(function: Function, name: str, sets: Sets, trouble: Trouble
             ) -> Callable[[float, bool, int], list[np.ndarray]]:
    """To be called with a number, whether branches are taken, and the turn."""

    def collective(place: int, number: tf.Tensor, results: list, branch: tf.Tensor) -> tf.Tensor:
        about = function.collectives[place]
        group = about.among or range(hvd.size())
        if about.bits:
            return of_bits(place, number, group, branch)
        first = number + sum(_total(results[source]) for source in about.sources)
        size = model.length(about, RANK, len(group))
        row = tf.math.floormod(first + tf.range(size, dtype=tf.float32), 3) + 1
        mine = _observe(tf.cast(row, about.dtype), place, trouble)
        mine.set_shape([size])
        if RANK not in group:
            return mine

        def perform() -> tf.Tensor:
            in_loop = function.times > 1
            return _perform(about, mine, f"{name}.{place}", sets[about.among], group[0], in_loop)

        return tf.cond(branch, perform, lambda: mine) if about.sometimes else perform()

    def of_bits(place: int, number: tf.Tensor, group: Sequence[int], branch: tf.Tensor
                ) -> tf.Tensor:
        about = function.collectives[place]
        if RANK not in group:
            return tf.zeros(0, tf.float64)
        size, dtype = model.length(about, RANK, len(group)), tf.as_dtype(about.dtype)

        def draw(number: np.ndarray) -> np.ndarray:
            trouble.visit(place)
            words = bits.given(about, RANK, group, size, int(number))
            return words.view(dtype.as_numpy_dtype)

        mine = tf.numpy_function(draw, [number], dtype, stateful=False)
        mine.set_shape([size])

        def perform() -> tf.Tensor:
            return _perform(about, mine, f"{name}.{place}", sets[about.among], group[0], False)

        return tf.cond(branch, perform, lambda: mine) if about.sometimes else perform()

    def once(number: tf.Tensor, branch: tf.Tensor) -> list[tf.Tensor]:
        results: list[tf.Tensor] = []
        for place in range(len(function.collectives)):
            results.append(collective(place, number, results, branch))
        return results

    def several(number: tf.Tensor, branch: tf.Tensor) -> list[tf.Tensor]:
        def body(turn: tf.Tensor, value: tf.Tensor) -> tuple:
            totals = [_total(result) for result in once(value, branch)]
            return turn + 1, tf.math.floormod(value + sum(totals), 5)

        return [tf.while_loop(lambda turn, _: turn < function.times, body, (0, number))[1]]

    run = several if function.times > 1 else once
    if not function.eager:
        run = tf.function(run, autograph=False)

    def call(number: float, branch: bool, turn: int) -> list[np.ndarray]:
        return [_words(result, about) if about.bits and RANK in (about.among or range(hvd.size()))
                else _array(result) for result, about in zip(
                    run(tf.constant(number), tf.constant(branch)), function.collectives)]

    return call


def _array(result: tf.Tensor) -> np.ndarray:
    return np.asarray(tf.cast(result, tf.float32) if result.dtype == tf.bfloat16 else result)


def _words(result: tf.Tensor, about: Collective) -> np.ndarray:
    return np.ascontiguousarray(result.numpy()).view(bits.word(about.dtype))


def _observe(tensor: tf.Tensor, place: int, trouble: Trouble) -> tf.Tensor:
    def see(array: np.ndarray) -> np.ndarray:
        trouble.visit(place)
        return array

    return tf.numpy_function(see, [tensor], tensor.dtype, stateful=False)


def _total(tensor: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(tensor, tf.float32))


def _perform(about: Collective, mine: tf.Tensor, name: str, group: hvd.ProcessSet, root: int,
             in_loop: bool) -> tf.Tensor:
    how = {"name": name, "process_set": group}
    if about.kind == "allreduce":
        return hvd.allreduce(
            mine, op=getattr(hvd, about.op), prescale_factor=about.scale, **how)
    if about.kind == "broadcast":
        return hvd.broadcast(mine, root, **how)
    if about.kind == "allgather":
        return hvd.allgather(mine, **how)
    if about.kind == "alltoall":
        return hvd.alltoall(mine, **how)
    if about.kind == "reducescatter":
        return hvd.reducescatter(mine, op=hvd.Sum, **how)
    if about.kind == "grouped":
        return sum(hvd.grouped_allreduce([mine, 2 * mine], op=hvd.Sum, **how))
    if about.kind == "mixed" and RANK % 2 == 0:
        return sum(hvd.grouped_allreduce([mine, 2 * mine], op=hvd.Sum, **how))
    if about.kind == "mixed":
        return sum(hvd.allreduce(factor * mine, op=hvd.Sum, name=f"{name}_{factor}of2")
                   for factor in (1, 2))
    # The allgathers of a sparse tensor are called like the tensors in it.
    rows = tf.constant(model.indices(about, RANK), tf.int32)
    if in_loop:  # In loops TensorFlow's optimizer gathers constants, in an order of its own.
        rows = tf.where(mine > 0, rows, 0)
    rows = tf.identity(rows, name=f"{name}.rows")
    values = tf.identity(mine, name=f"{name}.values")
    slices = hvd.allreduce(tf.IndexedSlices(values, rows, tf.constant([ROWS])), op=hvd.Sum, **how)
    return tf.scatter_nd(slices.indices[:, None], slices.values, [ROWS])
