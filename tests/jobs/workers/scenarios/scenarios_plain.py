"""Scenarios of functions that only reduce: chains, many at once, dtypes, large and empty ones."""

from __future__ import annotations

import cases
import horovod.tensorflow as hvd
import tensorflow as tf
from scenario_runs import STEPS, Results, number, own, reduce, rest, small, traced


def chain() -> Results:
    """Each sum is part of the next one's input."""

    @traced
    def chained(mine: tf.Tensor) -> tf.Tensor:
        total = mine
        for link in range(6):
            total = small(reduce(total + mine, f"chain.{link}"))
        return total

    totals = []
    for step in range(STEPS):
        rest()
        totals.append(chained(own(step, 7)))
    return number("chain", totals)


def wide() -> Results:
    """Forty that do not depend on each other, a scalar and an empty one among them."""
    shapes = [(), (0, 3), *((1 + 37 * i, 3) for i in range(38))]

    @traced
    def widened(*mine: tf.Tensor) -> list[tf.Tensor]:
        return [reduce(tensor, f"wide.{i}") for i, tensor in enumerate(mine)]

    steps = [widened(*(own(step + i, *s) for i, s in enumerate(shapes))) for step in range(STEPS)]
    return number("wide", *steps)


def kinds() -> Results:
    """Every dtype and operation, and factors before and after."""
    reductions = [
        (dtype, op) for dtype in cases.REDUCED["tensorflow"] for op in cases.reductions(dtype)
    ]

    @traced
    def reduced(*mine: tf.Tensor) -> list[tf.Tensor]:
        results = [
            reduce(tensor, f"kinds.{dtype}.{op}", op=getattr(hvd, op))
            for (dtype, op), tensor in zip(reductions, mine)
        ]
        results += [
            reduce(tensor, f"kinds.{dtype}.{op}.scaled", op=getattr(hvd, op), **cases.SCALES)
            for (dtype, op), tensor in zip(reductions, mine)
            if dtype in cases.FLOATS and op in ("Sum", "Average")
        ]
        return results

    steps = [
        reduced(*(own(step + i, 3, 11, dtype=dtype) for i, (dtype, _) in enumerate(reductions)))
        for step in range(STEPS)
    ]
    return number("kinds", *steps)


STEADY_STEPS = 200
LARGE = (("float32", 1_500_001), ("float64", 700_003), ("float16", 3_000_001),
         ("bfloat16", 2_000_003), ("float32", 5))


def large() -> Results:
    """Larger than a chunk of the shared memory and than the fusion threshold."""

    @traced
    def grown(*mine: tf.Tensor) -> list[tf.Tensor]:
        return [reduce(tensor, f"large.{i}") for i, tensor in enumerate(mine)]

    steps = [
        grown(*(own(step, length, dtype=dtype) for dtype, length in LARGE)) for step in range(6)
    ]
    return number("large", *steps)


def tape() -> Results:
    """Training with DistributedGradientTape; one variable has no gradient."""
    shapes = (6, 9), (9,), (9, 3), (3,), (2,)
    variables = [tf.Variable(tf.constant(cases.values("float32", 0, *shape))) for shape in shapes]

    @traced
    def trained(inputs: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            hidden = small(inputs @ variables[0]) + variables[1]
            loss = tf.reduce_sum(tf.square(hidden @ variables[2] + variables[3]))
        gradients = hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, variables)
        for variable, gradient in zip(variables, gradients):
            if gradient is not None:
                variable.assign(small(variable + gradient))
        return loss

    losses = []
    for step in range(STEPS):
        rest()
        losses.append(trained(own(step, 4, 6)))
    return number("tape", losses, [variable.read_value() for variable in variables])


def folded() -> Results:
    """A constant gradient, which TensorFlow could take for the same in each step."""
    weights, bias = tf.Variable(tf.zeros([6, 2])), tf.Variable(tf.zeros([2]))

    @traced
    def trained(inputs: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(inputs @ weights + bias)
        tape = hvd.DistributedGradientTape(tape, op=hvd.Sum)
        for variable, gradient in zip((weights, bias), tape.gradient(loss, (weights, bias))):
            variable.assign(small(variable + gradient))
        return loss

    losses = [trained(own(step, 4, 6)) for step in range(STEPS)]
    return number("folded", losses, [weights.read_value(), bias.read_value()])


def folded_shape() -> Results:
    """What TensorFlow knows of a tensor's shape is constant, too, and what it computes of that."""

    @traced
    def shaped(mine: tf.Tensor) -> list[tf.Tensor]:
        rows = tf.cast(tf.shape(mine), tf.float32)
        return [hvd.allreduce(rows, op=hvd.Sum, name="shape"), reduce(mine, "shaped")]

    return number("shape", *(shaped(own(step, 4, 6)) for step in range(STEPS)))


_steady: list = []


def settling() -> Results:
    """The first steps of a function: negotiated, and with rebuilt buckets."""

    @traced
    def settled(mine: tf.Tensor) -> list[tf.Tensor]:
        first = small(reduce(mine, "steady.first"))
        return [first, reduce(first + mine, "steady.second"), reduce(2 * mine, "steady.alone")]

    _steady[:] = [settled]
    return number("settling", *(settled(own(step, 4)) for step in range(2 * STEPS)))


def steady() -> Results:
    """Many more of its steps."""
    (settled,) = _steady
    return number("steady", *(settled(own(step, 4)) for step in range(STEADY_STEPS)))


SCENARIOS = (chain, wide, kinds, large, tape, folded, folded_shape, settling, steady)
