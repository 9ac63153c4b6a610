"""Scenarios in which planned and negotiated tensors are under way together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import horovod.tensorflow as hvd
import tensorflow as tf
from cases import splits, values
from common import RANK
from scenario_runs import STEPS, Results, number, own, process_sets, reduce, rest, small, traced


def negotiated(name: str, mine: tf.Tensor) -> list[tf.Tensor]:
    """One of each operation that is not planned; `mine` has as many rows as there are ranks."""
    size = hvd.size()
    rows = tf.constant(splits(RANK, size))
    sent = tf.repeat(mine[:1], tf.reduce_sum(rows), axis=0)
    return [
        hvd.broadcast(mine, size - 1, name=f"{name}.broadcast"),
        hvd.allgather(mine, name=f"{name}.allgather"),
        hvd.alltoall(mine, name=f"{name}.alltoall"),
        *hvd.alltoall(sent, splits=rows, name=f"{name}.split"),
        hvd.reducescatter(mine, op=hvd.Sum, name=f"{name}.reducescatter"),
        *hvd.grouped_allreduce([mine, 2 * mine], op=hvd.Sum, name=f"{name}.grouped"),
    ]


def planned(name: str):
    @traced
    def summed(mine: tf.Tensor) -> list[tf.Tensor]:
        first = small(reduce(mine, f"{name}.first"))
        return [first, reduce(first + mine, f"{name}.second"), reduce(2 * mine, f"{name}.alone")]

    return summed


def in_one_graph() -> Results:
    """Planned tensors wait for negotiated ones, and these for planned ones."""

    @traced
    def mixed(mine: tf.Tensor) -> list[tf.Tensor]:
        before = small(reduce(mine, "graph.before"))
        gathered = hvd.allgather(before + mine, name="graph.allgather")
        middle = small(reduce(small(tf.reduce_sum(gathered) + mine), "graph.middle"))
        spread = hvd.broadcast(middle + mine, 0, name="graph.broadcast")
        after = reduce(spread + mine, "graph.after")
        return [before, gathered, middle, spread, after, *negotiated("graph.beside", mine)]

    return number("graph", *(mixed(own(step, hvd.size(), 3)) for step in range(STEPS)))


def in_between() -> Results:
    """Eager operations before, between and after planned steps; an eager allreduce, too."""
    summed = planned("between")
    results = []
    for step in range(STEPS):
        mine = own(step, hvd.size(), 2)
        if step % 3 == 0:
            results.append(negotiated(f"between.{step % 2}", mine))
        rest()
        results.append(summed(mine))
        results.append([hvd.allreduce(mine, op=hvd.Sum), hvd.allreduce(own(step, 1000))])
    results.append(negotiated("between.0", own(7, hvd.size(), 2)))
    return number("between", *results)


def from_two_threads() -> Results:
    """One thread takes planned steps while another one calls what is negotiated."""
    summed = planned("beside")

    def steps() -> list:
        results = []
        for step in range(4 * STEPS):
            results.append(summed(own(step, hvd.size(), 50)))
            rest()
        return results

    def others() -> list:
        return [negotiated("beside", own(step, hvd.size(), 5)) for step in range(STEPS)]

    with ThreadPoolExecutor() as pool:
        first, second = pool.submit(steps), pool.submit(others)
    return {**number("steps", *first.result()), **number("others", *second.result())}


def uneven(steps_of_rank: list[int], name: str, op: int) -> Results:
    """Ranks join after different numbers of steps; then training goes on with all of them."""

    @traced
    def summed(mine: tf.Tensor) -> list[tf.Tensor]:
        first = reduce(mine, f"{name}.first", op=op)
        return [first, reduce(first + mine, f"{name}.second", op=op)]

    results = []
    for step in range(steps_of_rank[RANK]):
        rest()
        results.append(summed(own(step, 4)))
    last = hvd.join()
    results += [summed(own(step, 4)) for step in range(STEPS)]
    return {**number(name, *results), "last": last}


def last_has_most() -> Results:
    return uneven([STEPS + 3 * rank for rank in range(hvd.size())], "last", hvd.Sum)


def first_has_most() -> Results:
    return uneven([STEPS + 2 - 2 * rank for rank in range(hvd.size())], "first", hvd.Sum)


def joins_at_once() -> Results:
    """One rank has no step at all: the plan is not known there when the others warm it up."""
    return uneven([(STEPS + rank) * (rank > 0) for rank in range(hvd.size())], "none", hvd.Sum)


def sparse() -> Results:
    """Sparse gradients are gathered, beside the dense ones."""
    table = tf.Variable(tf.constant(values("float32", 0, 9, 2)))
    dense = tf.Variable(tf.constant(values("float32", 1, 2, 3)))

    @traced
    def trained(rows: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.gather(table, rows) @ dense))
        tape = hvd.DistributedGradientTape(tape, op=hvd.Sum)
        slices, gradient = tape.gradient(loss, [table, dense])
        table.scatter_nd_add(slices.indices[:, None], small(slices.values))
        table.assign(small(table))
        dense.assign(small(dense + gradient))
        return loss

    losses = [trained(own(step, 3 + RANK, dtype="int32")) for step in range(STEPS)]
    return number("sparse", losses, [table.read_value(), dense.read_value()])


def beside_process_sets() -> Results:
    """Eager operations among neighbours between planned steps."""
    neighbours = [pair for pair in process_sets if pair.included()]
    summed = planned("neighbours")
    results = []
    for step in range(STEPS):
        mine = own(step, 6)
        results.append(summed(mine))
        for pair in neighbours:
            results.append([
                hvd.broadcast(mine, pair.ranks[-1], process_set=pair),
                hvd.allreduce(mine, op=hvd.Sum, process_set=pair),
            ])
    return number("neighbours", *results)


def in_process_sets() -> Results:
    """Reductions among neighbours, in the graph of those over all; ranks have different graphs."""
    neighbours = [pair for pair in process_sets if pair.included()]

    @traced
    def summed(mine: tf.Tensor) -> list[tf.Tensor]:
        before = small(reduce(mine, "sets.before"))
        parts = [
            reduce(before + mine, f"sets.{pair.ranks[0]}", process_set=pair) for pair in neighbours
        ]
        after = reduce(small(sum(parts, mine)), "sets.after")
        return [before, *parts, after, reduce(2 * mine, "sets.alone")]

    return number("sets", *(summed(own(step, 6)) for step in range(STEPS)))


SCENARIOS = (
    in_one_graph, in_between, from_two_threads, beside_process_sets, in_process_sets,
    last_has_most, first_has_most, joins_at_once, sparse,
)
