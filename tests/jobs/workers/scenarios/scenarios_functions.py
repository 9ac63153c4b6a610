"""Scenarios of several functions: in turn, at once, within each other, and traced again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import horovod.tensorflow as hvd
import tensorflow as tf
from common import RANK
from scenario_runs import STEPS, Results, number, own, reduce, rest, small, traced


def summing(*names: str):
    """A function that sums tensors of these names; each after the one before, and alone."""

    @traced
    def summed(mine: tf.Tensor) -> list[tf.Tensor]:
        totals = []
        for name in names:
            totals.append(small(reduce(mine + sum(totals), f"{name}.chained")))
            totals.append(reduce(mine, f"{name}.alone"))
        return totals

    return summed


def alternating() -> Results:
    first, second = summing("alternating.first"), summing("alternating.second", "alternating.third")
    steps = []
    for step in range(STEPS):
        steps.append((first if step % 3 else second)(own(step, 5)))
        steps.append((second if step % 2 else first)(own(step, 6 if step % 2 else 5)))
        rest()
    return number("alternating", *steps)


def two_threads() -> Results:
    """Each thread has a function of its own, and they do not wait for each other."""
    functions = {name: summing(f"threads.{name}") for name in ("one", "other")}

    def run(name: str) -> list:
        steps = []
        for step in range(3 * STEPS):
            steps.append(functions[name](own(step, 4)))
            rest()
        return steps

    with ThreadPoolExecutor() as pool:
        threads = {name: pool.submit(run, name) for name in functions}
    results = {}
    for name, thread in threads.items():
        results.update(number(f"threads.{name}", *thread.result()))
    return results


def nested() -> Results:
    """A function that reduces, called twice, one after the other, in one that reduces, too."""

    @traced
    def inner(mine: tf.Tensor) -> tf.Tensor:
        return small(reduce(mine, "nested.inner.0")) + small(reduce(2 * mine, "nested.inner.1"))

    @traced
    def outer(mine: tf.Tensor) -> list[tf.Tensor]:
        before = small(reduce(mine, "nested.before"))
        once = inner(before + mine)
        between = small(reduce(once + mine, "nested.between"))
        twice = inner(between + mine)
        return [before, once, between, twice, reduce(twice + mine, "nested.after")]

    return number("nested", *(outer(own(step, 3)) for step in range(STEPS)))


def called_by_two() -> Results:
    """A function called by two others, and directly."""
    inner = summing("shared.inner")

    def calling(name: str):
        @traced
        def caller(mine: tf.Tensor) -> list[tf.Tensor]:
            total = small(reduce(mine, name))
            return inner(total + mine)

        return caller

    functions = calling("shared.one"), calling("shared.other"), inner
    steps = [functions[step % 3](own(step, 4)) for step in range(2 * STEPS)]
    return number("shared", *steps)


def called_at_once() -> Results:
    """A function called twice in one, and neither call waits for the other."""
    inner = summing("unordered.inner")

    @traced
    def outer(mine: tf.Tensor) -> list[tf.Tensor]:
        return [*inner(mine), *inner(2 * mine)]

    return number("unordered", *(outer(own(step, 4)) for step in range(STEPS)))


def called_at_once_later() -> Results:
    """The same, when the function has been called alone for a while, and its plan is active."""
    inner = summing("later.inner")

    @traced
    def outer(mine: tf.Tensor) -> list[tf.Tensor]:
        return [*inner(mine), *inner(2 * mine)]

    alone = [inner(own(step, 4)) for step in range(STEPS)]
    at_once = [outer(own(step, 4)) for step in range(STEPS)]
    return number("later", *alone, *at_once, inner(own(0, 4)))


def training(name: str):
    """A step whose batches may differ in size; what is reduced does not."""
    weights = tf.Variable(tf.zeros([5, 2]))

    @traced
    def trained(batch: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(batch @ weights)
        (gradient,) = hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, [weights])
        return weights.assign(small(weights + gradient) + small(reduce(weights, name)))

    return trained


def retraced() -> Results:
    """Every fourth batch is smaller, as at the end of an epoch."""
    trained = training("retraced")
    steps = [trained(own(step, 3 if step % 4 == 3 else 8, 5)) for step in range(2 * STEPS)]
    assert trained.experimental_get_tracing_count() == 2
    return number("retraced", steps)


def retraced_on_one_rank() -> Results:
    """The last rank has smaller batches now and then."""
    trained = training("retraced.one")
    smaller = RANK == hvd.size() - 1
    steps = [
        trained(own(step, 3 if smaller and step % 4 == 3 else 8, 5)) for step in range(2 * STEPS)
    ]
    return number("retraced.one", steps)


def different_order() -> Results:
    """The graphs of the ranks differ: each adds its operations in an order of its own."""

    @traced
    def summed(mine: tf.Tensor) -> list[tf.Tensor]:
        return [reduce(mine + i, f"order.{i}") for i in places]

    places = (0, 1, 2, 3) if RANK else (3, 1, 0, 2)
    steps = [summed(own(step, 4)) for step in range(STEPS)]
    return number("order", *([totals[places.index(i)] for i in range(4)] for totals in steps))


def different_graphs() -> Results:
    """On the first rank each tensor waits for the one before it, on the others none does."""

    @traced
    def summed(mine: tf.Tensor) -> list[tf.Tensor]:
        totals = []
        for i in range(4):
            with tf.control_dependencies(totals[-1:] if RANK == 0 else []):
                totals.append(reduce(mine + i, f"graphs.{i}"))
        return totals

    return number("graphs", *(summed(own(step, 4)) for step in range(STEPS)))


SCENARIOS = (
    alternating, two_threads, nested, called_by_two, called_at_once, called_at_once_later,
    retraced, retraced_on_one_rank,
    different_order, different_graphs,
)
