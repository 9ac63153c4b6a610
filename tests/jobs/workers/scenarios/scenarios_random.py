"""Random programs: functions with planned and negotiated collectives, called in any order.

Hypothesis draws all of them before the first one runs, from a seed: every rank has the same.
"""

from __future__ import annotations

import functools

import horovod.tensorflow as hvd
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scenario_runs import Results, nap, own, rest, traced

PROGRAMS = 8

REDUCTIONS = st.tuples(
    st.just("allreduce"),
    st.fixed_dictionaries({
        "dtype": st.sampled_from(
            ("float32", "float32", "float64", "float16", "bfloat16", "int32", "uint8")),
        "op": st.sampled_from(("Sum", "Sum", "Min", "Max")),
        "scale": st.sampled_from((1.0, 1.0, 2.0)),
        "length": st.integers(0, 20_000),
    }),
)
OTHERS = st.tuples(
    st.sampled_from(("broadcast", "allgather", "alltoall", "reducescatter", "grouped")),
    st.fixed_dictionaries({"dtype": st.just("float32"), "length": st.integers(1, 300)}),
)
COLLECTIVES = st.one_of(REDUCTIONS, REDUCTIONS, REDUCTIONS, OTHERS)
# Each collective of a function, and which earlier ones its input depends on.
FUNCTIONS = st.lists(st.tuples(COLLECTIVES, st.sets(st.integers(0, 6), max_size=2)),
                     min_size=3, max_size=7)
# Which function each call is of; a negative number is an eager collective.
CALLS = st.lists(st.integers(-1, 2), min_size=8, max_size=24)
PROGRAM = st.tuples(st.lists(FUNCTIONS, min_size=2, max_size=3), CALLS)


def draw() -> list:
    programs: list = []

    @settings(
        max_examples=PROGRAMS, derandomize=True, database=None, deadline=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )
    @given(PROGRAM)
    def collect(program: tuple) -> None:
        programs.append(program)

    collect()
    return programs


def perform(kind: str, mine: tf.Tensor, name: str, how: dict) -> tf.Tensor:
    """`mine`: a vector, for all but allreduce of as many equal parts as there are ranks."""
    if kind == "allreduce":
        return hvd.allreduce(
            mine, name=name, op=getattr(hvd, how["op"]),
            prescale_factor=how["scale"] if "float" in how["dtype"] else 1.0,
        )
    if kind == "broadcast":
        return hvd.broadcast(mine, 0, name=name)
    if kind == "allgather":
        return hvd.allgather(mine, name=name)
    if kind == "alltoall":
        return hvd.alltoall(mine, name=name)
    if kind == "reducescatter":
        return hvd.reducescatter(mine, op=hvd.Sum, name=name)
    return sum(hvd.grouped_allreduce([mine, 2 * mine], op=hvd.Sum, name=name))


def function(collectives: list, name: str):
    """A function of a number, which gives what each of the collectives gave."""

    @traced
    def run(number: tf.Tensor) -> list[tf.Tensor]:
        results: list[tf.Tensor] = []
        for place, ((kind, how), sources) in enumerate(collectives):
            seed = number + sum(
                tf.reduce_sum(tf.cast(results[source], tf.float32))
                for source in sources if source < place
            )
            length = how["length"] * (1 if kind == "allreduce" else hvd.size())
            numbers = tf.math.floormod(seed + tf.range(length, dtype=tf.float32), 3) + 1
            numbers.set_shape([length])
            results.append(
                perform(kind, nap(tf.cast(numbers, how["dtype"])), f"{name}.{place}", how)
            )
        return results

    return run


def run_program(number: int, functions: list, calls: list[int]) -> Results:
    compiled = [function(part, f"random.{number}.{i}") for i, part in enumerate(functions)]
    results: Results = {}
    for turn, call in enumerate(calls):
        rest()
        mine = own(turn)
        if call < 0:
            results[f"{turn}.eager"] = hvd.allreduce(mine, op=hvd.Sum)
            continue
        for place, result in enumerate(compiled[call % len(compiled)](mine)):
            results[f"{turn}.{call}.{place}"] = result
    return results


def _scenario(number: int, program: tuple):
    run = functools.partial(run_program, number, *program)
    run.__name__ = f"program {number}: {program}"
    return run


SCENARIOS = tuple(_scenario(number, program) for number, program in enumerate(draw()))
