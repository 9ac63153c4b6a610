"""All modes at all rank counts: the simulation's document, and what it compares with what."""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from horovod_lab.bench.worker_job import BASE
from horovod_lab.simulate import model
from horovod_lab.simulate.modes import scp
from horovod_lab.simulate.parameters import Parameters


def possible(p: Parameters, mode: str) -> bool:
    """Whether every rank has the cores that the mode needs."""
    return "scp" not in mode.split("+") or scp.has_cores(p)


def ideal_images_per_second(p: Parameters, ranks: int, seed: int) -> float:
    """Of `ranks` ranks that do not communicate; those of a node still share its cores."""
    alone = model.simulate(p, BASE, 1, 200, seed)
    step = statistics.fmean(alone.steps)
    if p.ranks_per_domain > 1:
        demand = min(ranks, p.ranks_per_domain) * p.compute_threads
        step *= max(1.0, demand / p.cores)
    return ranks * p.batch / step


def measure(p: Parameters, mode: str, ranks: int, steps: int, seed: int, trace: bool,
            report: Callable[[], None]) -> dict[str, Any]:
    """One row of the document's "results", without what compares it with other rows."""
    result = model.simulate(p, mode, ranks, steps, seed, trace, report)
    ordered = sorted(result.steps)
    mean = statistics.fmean(ordered)
    parts = {name: statistics.fmean(getattr(result, name))
             for name in ("compute", "waiting", "data")}
    rest = mean - sum(parts.values())
    # As the source counts: who waits in the negotiation waits for Horovod, with topo for data.
    waits_for_data = "topo" in mode.split("+")
    return {
        "mode": mode, "ranks": ranks,
        "step_seconds": {"mean": mean, "median": statistics.median(ordered),
                         "p5": _quantile(ordered, 0.05), "p95": _quantile(ordered, 0.95)},
        "images_per_second": ranks * p.batch / mean,
        "breakdown": {
            "compute": parts["compute"],
            "data": parts["data"] + (parts["waiting"] if waits_for_data else 0),
            "overhead": rest + (0 if waits_for_data else parts["waiting"]),
            "waiting_for_the_slowest": parts["waiting"]},
        "background_cpu": result.background_cpu,
        "cycles_per_step": result.cycles / steps,
        "agreements_per_step": result.agreements / steps,
        "rounds_per_step": result.rounds / steps,
        **({"timeline": result.trace} if trace else {}),
    }


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, math.floor(share * len(ordered)))]


def run(p: Parameters, modes: Sequence[str], rank_counts: Sequence[int], steps: int, seed: int,
        keep: Callable[[list[dict]], None], report: Callable[[str, int], None]) -> list[dict]:
    """"results" of the document, by rank count and mode; `keep` sees them after each row.

    Raises:
        ParameterError: see model.simulate.
    """
    for mode in modes:
        for ranks in rank_counts:
            model.check(p, mode, ranks)
    results: list[dict] = []
    traced = min((ranks for ranks in rank_counts if ranks > 1), default=0)
    ideal = {ranks: ideal_images_per_second(p, ranks, seed) for ranks in rank_counts}
    for ranks in rank_counts:
        for mode in modes:
            row = measure(p, mode, ranks, steps, seed, ranks == traced, lambda: report(mode, ranks))
            row["efficiency"] = row["images_per_second"] / ideal[ranks]
            base = next((earlier for earlier in results
                         if earlier["ranks"] == ranks and earlier["mode"] == BASE),
                        row if mode == BASE else None)
            row["improvement_over_off"] = base and (
                row["images_per_second"] / base["images_per_second"] - 1)
            results.append(row)
            keep(results)
    return results


def cost(start: float) -> dict[str, float]:
    """What the simulation itself took since `start`, of time.process_time()."""
    return {"seconds": time.process_time() - start,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
