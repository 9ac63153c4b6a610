"""Prediction against measurement between nodes: what `horovod-opt bench nodes` measured of mode
topo, and its simulation."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from horovod_opt.bench.nodes.results import Cell, cells
from horovod_opt.bench.nodes.rows import SIZE_LARGE, TOPO, TOPO_BF16, TOPO_GLOO
from horovod_opt.bench.worker_job import LIMIT
from horovod_opt.simulate import calibrate_nodes, model, study
from horovod_opt.simulate.calibrate_nodes import ALONE, Calibrating
from horovod_opt.simulate.parameters import ParameterError, Parameters
from horovod_opt.simulate.validate import BAND

STEPS = 30
PREDICTED = (LIMIT, TOPO, TOPO_GLOO, TOPO_BF16)
WORKLOADS = ("resnet50", "large")
SHORTEST = 1e-6  # seconds of a computation that is next to nothing


def check(document: dict[str, Any], calibrated: bool) -> None:
    """Raises ParameterError if the benchmark lacks what calibrates, or something else does."""
    if calibrated:
        raise ParameterError("a benchmark of nodes calibrates itself; remedy: leave --from out")
    calibrate_nodes.check(document)


def validate(document: dict[str, Any], seed: int, done: Callable[[str], None]) -> dict[str, Any]:
    """The "validation" of the simulation's document: topo, and no communication, in every layout of
    `document`, a benchmark that `check` accepts, with their prediction."""
    setup = calibrate_nodes.from_nodes(document)
    points = []
    for cell, series in _measured(document):
        done(f"{cell.workload.label}, {cell.layout}: {series}")
        p = calibrate_nodes.in_layout(setup, cell.layout).parameters
        values = sorted(cell.values[series].values())
        size = _gradient_bytes(document, cell, series)
        predicted = _predict(cell, series, dataclasses.replace(p, gradient_bytes=size), seed)
        median = statistics.median(values)
        points.append({
            "cell": f"{cell.workload.label}, {cell.layout}", "series": series,
            "ranks": cell.layout.ranks, "unit": cell.workload.unit, "n": len(values),
            "measured": median, "low": values[0], "high": values[-1], "predicted": predicted,
            "error": predicted / median - 1,
            "calibrated": Calibrating(cell.workload.name, cell.layout, series) == ALONE})
    return {"band": BAND, "points": points, "parameters": {"virtual hosts": setup.to_json()},
            "calibrated_on": ", ".join(map(str, calibrate_nodes.CELLS))}


def _measured(document: dict[str, Any]) -> Iterator[tuple[Cell, str]]:
    """What can be predicted, in the order of the benchmark."""
    for cell in cells(document["measurements"]):
        if cell.workload.name in WORKLOADS:
            yield from ((cell, series) for series in PREDICTED if cell.values.get(series))


def _gradient_bytes(document: dict[str, Any], cell: Cell, series: str) -> float:
    """That a rank reduces in a step, as its counters say; without them nothing is reduced."""
    found = [one["step_bytes"] for one in document["measurements"]
             if (one["workload"], one["layout"], one["series"])
             == (cell.workload.name, cell.layout.name, series) and one.get("step_bytes")]
    return statistics.median(found) if found else SIZE_LARGE


def _predict(cell: Cell, series: str, p: Parameters, seed: int) -> float:
    """In the unit of the workload."""
    ranks = cell.layout.ranks
    if series == LIMIT:
        return study.ideal_images_per_second(p, ranks, seed)
    if cell.workload.name == "large":
        p = dataclasses.replace(p, compute_seconds=SHORTEST, bucket_bytes=p.gradient_bytes)
    step = statistics.fmean(model.simulate(p, TOPO, ranks, STEPS, seed).steps)
    return 1e6 * step if cell.workload.name == "large" else ranks * p.batch / step
