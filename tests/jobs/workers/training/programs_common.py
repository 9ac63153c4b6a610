"""What the programs share that train as users do: they run in mode off, then in topo."""

from __future__ import annotations

import faulthandler
from collections.abc import Callable
from types import ModuleType

import numpy as np
from common import RANK, graph_plans, report, running, start_mpi

import horovod_opt

Program = Callable[[], "list[np.ndarray]"]  # the weights at the end


def _observe(program: Program) -> tuple[list[np.ndarray], dict]:
    before = horovod_opt.stats()
    weights = program()
    after = horovod_opt.stats()
    return weights, {
        "planned_iterations": after.planned_iterations - before.planned_iterations,
        "plans": sorted({f"{plan.state}: {plan.reason}" for plan in graph_plans()}),
    }


def compare(hvd: ModuleType, library: object, programs: list[Program]) -> None:
    """Reports by program how far its weights in topo are from those in off, and what was planned.

    The library is the one that starts MPI.
    """
    faulthandler.dump_traceback_later(140)  # where it hangs, before it is killed for that
    start_mpi(library)
    runs: dict[str, list] = {program.__name__: [] for program in programs}
    for mode in "off", "topo":
        for program in programs:
            print(f"rank {RANK}, mode {mode}: {program.__name__}", flush=True)
            with running(hvd, mode):
                runs[program.__name__].append(_observe(program))
    report(**{name: {
        **observation,
        "off": off_seen["planned_iterations"],
        "weights": len(topo),
        "moved": float(sum(np.abs(first).sum() for first in topo)),
        "different": sum(first.tobytes() != second.tobytes() for first, second in zip(off, topo)),
        "distance": max(float(np.abs(first - second).max()) for first, second in zip(off, topo)),
    } for name, ((off, off_seen), (topo, observation)) in runs.items()})
