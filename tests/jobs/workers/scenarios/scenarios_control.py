"""Scenarios with branches, loops and control dependencies, in functions and in sessions."""

from __future__ import annotations

import horovod.tensorflow as hvd
import tensorflow as tf
from cases import values
from common import RANK
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from scenario_runs import STEPS, Results, number, own, reduce, rest, small, traced

v1 = tf.compat.v1


def branch() -> Results:
    """A branch that all ranks take, then none, then all."""

    @traced
    def branched(mine: tf.Tensor, condition: tf.Tensor) -> list[tf.Tensor]:
        before = small(reduce(mine, "branch.before"))
        inside = tf.cond(
            condition,
            lambda: reduce(before + mine, "branch.taken.0") + reduce(mine, "branch.taken.1"),
            lambda: 3 * before,
        )
        return [before, inside, reduce(small(inside) + mine, "branch.after")]

    pattern = [True] * 8 + [False] * 6 + [True, False] * 3 + [True] * 4
    return number(
        "branch",
        *(branched(own(i, 3), tf.constant(condition)) for i, condition in enumerate(pattern))
    )


def two_branches() -> Results:
    """Both branches reduce; neither is taken in the first steps of the other."""

    @traced
    def branched(mine: tf.Tensor, condition: tf.Tensor) -> tf.Tensor:
        return tf.cond(
            condition,
            lambda: reduce(mine, "branches.one") + 1,
            lambda: reduce(2 * mine, "branches.other") - 1,
        )

    pattern = [False] * 7 + [True] * 7 + [False, True] * 4
    steps = [branched(own(i, 3), tf.constant(condition)) for i, condition in enumerate(pattern)]
    return number("branches", steps)


def loop() -> Results:
    """The body of a loop, which runs a different number of times in each step."""

    @traced
    def looped(mine: tf.Tensor, times: tf.Tensor) -> tf.Tensor:
        def body(turn: tf.Tensor, total: tf.Tensor) -> tuple:
            once = small(reduce(total + mine, "loop.once"))
            return turn + 1, once + small(reduce(once + mine, "loop.twice"))

        return tf.while_loop(lambda turn, _: turn < times, body, (0, mine))[1]

    steps = [looped(own(step, 3), tf.constant(1 + step % 4)) for step in range(STEPS)]
    return number("loop", steps)


def control() -> Results:
    """Reductions whose order is given by control dependencies only."""

    @traced
    def controlled(mine: tf.Tensor) -> list[tf.Tensor]:
        totals = [reduce(mine, "control.0")]
        for i in range(1, 4):
            with tf.control_dependencies([totals[-1]]):
                totals.append(reduce((i + 1) * mine, f"control.{i}"))
        return totals

    return number("control", *(controlled(own(step, 3)) for step in range(STEPS)))


def unread() -> Results:
    """Reductions whose results nobody reads: TensorFlow may leave them out."""
    total = tf.Variable(0.0)

    @traced
    def unused(mine: tf.Tensor) -> tf.Tensor:
        first = reduce(mine, "unread.first")
        with tf.control_dependencies([first]):
            second = reduce(2 * mine, "unread.second")
        total.assign_add(tf.reduce_sum(reduce(3 * mine, "unread.assigned")))
        with tf.control_dependencies([second]):
            return tf.identity(mine)

    steps = [unused(own(step, 3)) for step in range(STEPS)]
    return {**number("unread", steps), "total": total.read_value()}


def accumulation() -> Results:
    """Each rank adds up the gradients of three steps (backward_passes_per_step)."""
    variables = [tf.Variable(tf.constant(values("float32", 0, *s))) for s in ((4, 3), (3,))]

    def allreduced(gradients: list, _: list) -> list:
        return [reduce(gradient, f"sums.{i}") for i, gradient in enumerate(gradients)]

    helper = LocalGradientAggregationHelperEager(3, allreduced, False, False)

    @traced
    def trained(inputs: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(inputs @ variables[0] + variables[1]))
        gradients = helper.compute_gradients(tape.gradient(loss, variables), variables)

        def apply() -> tf.Tensor:
            for variable, gradient in zip(variables, gradients):
                variable.assign(small(variable + gradient))
            return helper.counter.assign(0)

        tf.cond(tf.equal(helper.counter, 3), apply, lambda: helper.counter.read_value())
        return loss

    losses = [trained(own(step, 2, 4)) for step in range(6 * STEPS)]
    return number("sums", losses, [variable.read_value() for variable in variables])


def session(name: str, order: list[str]) -> Results:
    """Runs of one graph, for fetches of these names."""
    results: Results = {}
    with tf.Graph().as_default(), v1.Session() as session:
        mine = v1.placeholder(tf.float32, [4])
        sums = [reduce((i + 1) * mine, f"{name}.{i}") for i in range(4)]
        chained = reduce(small(sums[0]) + mine, f"{name}.chained")
        total = v1.get_variable("total", initializer=tf.zeros([4]))
        train = total.assign_add(sums[1] + chained)
        loss = tf.reduce_sum(mine)
        session.run(v1.global_variables_initializer())
        fetches = {
            "train": train, "both": (train, loss), "none": loss,
            "some": sums[2:], "one": sums[3], "all": (sums, chained),
        }
        for fetched in order:
            rest()
            arrays = session.run(
                fetches[fetched], {mine: values("float32", RANK + len(results), 4)}
            )
            for i, array in enumerate(tf.nest.flatten(arrays)):
                results[f"{len(results)}.{fetched}.{i}"] = array
    return results


def same_fetches() -> Results:
    """With the loss or without: the reductions are the same."""
    return session("same", ["train", "both", "none"] * STEPS)


def overlapping_fetches() -> Results:
    """The reductions of one run are a part of those of another."""
    repeated = [*(["train"] * 5), *(["some", "one", "all", "both"] * 4), *(["train"] * 5)]
    return session("overlapping", [*repeated, *(["all"] * 5), *(["one"] * 5)])


def train_in_session() -> Results:
    """DistributedOptimizer of TensorFlow 1; it adds up two steps."""
    losses = []
    with tf.Graph().as_default(), v1.Session() as session:
        mine = v1.placeholder(tf.float32, [None, 3])
        weights = v1.get_variable("weights", initializer=tf.ones([3, 2]))
        loss = tf.reduce_sum(mine @ weights)
        optimizer = hvd.DistributedOptimizer(
            v1.train.GradientDescentOptimizer(1.0), op=hvd.Sum, backward_passes_per_step=2
        )
        train = optimizer.minimize(loss, var_list=[weights])
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        for step in range(2 * STEPS):
            rows = values("float32", RANK + step, 2 + RANK, 3)
            losses.append(session.run((loss, train), {mine: rows})[0])
        final = session.run(weights)
    return {**number("losses", losses), "weights": final}


SCENARIOS = (
    branch, two_branches, loop, control, unread, accumulation, same_fetches, overlapping_fetches,
    train_in_session,
)
