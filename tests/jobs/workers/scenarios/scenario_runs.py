"""Scenarios: short programs whose results must be the same, bit for bit, in mode off and in topo.

A scenario is a function without arguments that returns tensors by name. All ranks run all
scenarios, first in mode off, then in topo. Every number is a small whole one, so that sums are
exact in any order.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from cases import values
from common import RANK, SIZE, running

import horovod_opt

STEPS = 12  # the last ones use rebuilt buckets

Results = dict[str, object]
Scenario = Callable[[], Results]

# Neighbours, which overlap; given to each hvd.init() of more than two ranks.
process_sets: list[hvd.ProcessSet] = []

# A plan is forgotten with its function: what a scenario traces lives until it was observed.
_traced: list[Callable] = []

_late_rank = -1
_delays = random.Random(1)


def be_late(rank: int) -> None:
    """From now on nap() takes its time on that rank; on no rank if it is negative."""
    global _late_rank
    _late_rank = rank


def rest() -> None:
    """Up to 8 ms, now and then, on the late rank."""
    if RANK == _late_rank and _delays.random() < 0.3:
        time.sleep(0.008 * _delays.random())


def _rest(tensor: np.ndarray) -> np.ndarray:
    rest()
    return tensor


def nap(tensor: tf.Tensor) -> tf.Tensor:
    """`tensor`, on the late rank a little late: in which order they arrive is anybody's guess."""
    (result,) = tf.numpy_function(_rest, [tensor], [tensor.dtype], stateful=False)
    result.set_shape(tensor.shape)
    return result


def traced(function: Callable) -> Callable:
    _traced.append(tf.function(function, autograph=False))
    return _traced[-1]


def own(step: int, *shape: int, dtype: str = "float32") -> tf.Tensor:
    """Differs from rank to rank and from step to step; 1 to 3."""
    return tf.cast(tf.constant(values(dtype, RANK + step, *shape)), dtype)


def reduce(tensor: tf.Tensor, name: str, **how: object) -> tf.Tensor:
    """A planned allreduce, if in a graph; a sum by default."""
    return hvd.allreduce(nap(tensor), name=name, **{"op": hvd.Sum, **how})


def small(tensor: tf.Tensor) -> tf.Tensor:
    """Back to whole numbers below 5, so that whatever is computed of it stays exact."""
    return tf.math.floormod(tensor, tf.constant(5, tensor.dtype))


def number(name: str, *lists: list) -> Results:
    """Tensors of a list, by name."""
    return {f"{name}.{i}": tensor for i, tensor in enumerate(sum(lists, []))}


def _sets_of_pairs() -> list[hvd.ProcessSet]:
    """New ones for each life of Horovod, which the scenarios find in `process_sets`."""
    pairs = [[rank, rank + 1] for rank in range(SIZE - 1)] if SIZE > 2 else []
    process_sets[:] = [hvd.ProcessSet(pair) for pair in pairs]
    return process_sets


def observe(scenario: Scenario) -> dict:
    """What a scenario gave, and what it did to the plans and the counters."""
    plans = {plan.hash: plan.iterations for plan in horovod_opt.plans()}
    before = horovod_opt.stats()
    results = {name: np.asarray(tensor) for name, tensor in scenario().items()}
    after = horovod_opt.stats()
    plans_after = horovod_opt.plans()
    _traced.clear()
    return {
        "results": results,
        "plans": [
            {**dataclasses.asdict(plan), "is_call": plan.is_call,
             "planned_iterations": plan.iterations - plans.get(plan.hash, 0)}
            for plan in plans_after
            if plan.hash not in plans or plan.iterations > plans[plan.hash]
        ],
        "planned_iterations": after.planned_iterations - before.planned_iterations,
        "cycles": after.cycles - before.cycles,
    }


def compare(off: Results, topo: Results) -> list[str]:
    """The names of results that are not the same bits, with a bit of both."""
    different = [f"{name}: only in one mode" for name in off.keys() ^ topo.keys()]
    for name in off.keys() & topo.keys():
        in_off, in_topo = off[name], topo[name]
        if ((in_off.dtype, in_off.shape) != (in_topo.dtype, in_topo.shape)
                or in_off.tobytes() != in_topo.tobytes()):
            different.append(f"{name}: {in_off.ravel()[:5]} in off, {in_topo.ravel()[:5]} in topo")
    return sorted(different)


@dataclasses.dataclass(frozen=True)
class Kind:
    """Scenarios by name, the settings of mode topo to run them in, and which rank is late."""

    scenarios: dict[str, Scenario]
    settings: dict[str, str]
    late_rank: int = -1


def _run(mode: str, kind: Kind) -> dict[str, dict]:
    """By scenario: what observe() saw."""
    observations = {}
    be_late(kind.late_rank)
    with running(hvd, mode, _sets_of_pairs(), **kind.settings):
        for name, scenario in kind.scenarios.items():
            print(f"rank {RANK}, mode {mode} {kind.settings}: {name}", flush=True)
            observations[name] = observe(scenario)
            # The next one may begin by pausing all plans.
            hvd.allreduce(tf.zeros([]), name="met")
    return observations


def compared_with_off(kinds: dict[str, Kind]) -> dict[str, dict[str, dict]]:
    """By kind and scenario: what was seen in mode topo, and what differs from off for results."""
    every: dict[str, Scenario] = {}
    for kind in kinds.values():
        every.update(kind.scenarios)
    off = _run("off", Kind(every, {}))
    assert not any(observation["planned_iterations"] or observation["plans"]
                   for observation in off.values())
    reports: dict[str, dict[str, dict]] = {}
    planned_before: set[str] = set()  # plans outlive hvd.shutdown()
    for kind_name, kind in kinds.items():
        reports[kind_name] = _run("topo", kind)
        for name, observation in reports[kind_name].items():
            results = observation.pop("results")
            different = compare(off[name]["results"], results)
            observation.update(results=len(results), different=different,
                               again=name in planned_before)
        planned_before.update(kind.scenarios)
    return reports
