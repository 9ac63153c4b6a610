"""Prediction against measurement between nodes: what `horovod-opt bench nodes` measured of mode
topo, and its simulation."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from horovod_lab.bench.nodes.results import Cell, cells
from horovod_lab.bench.nodes.rows import SIZE_LARGE, TOPO, TOPO_BF16, TOPO_GLOO
from horovod_lab.bench.worker_job import LIMIT
from horovod_lab.simulate import calibrate_nodes, model, study
from horovod_lab.simulate.calibrate_nodes import ALONE, Calibrating, horovods_cpu
from horovod_lab.simulate.parameters import ParameterError, Parameters, Setup
from horovod_lab.simulate.validate import BAND, beside

STEPS = 30
PREDICTED = (LIMIT, TOPO, TOPO_GLOO, TOPO_BF16)
WORKLOADS = ("resnet50", "large")
SHORTEST = 1e-6  # seconds of a computation that is next to nothing


def check(document: dict[str, Any], calibrated: bool) -> None:
    """Raises ParameterError if the benchmark lacks what calibrates, or something else does."""
    if calibrated:
        raise ParameterError("a benchmark of nodes calibrates itself; remedy: leave --from out")
    calibrate_nodes.check(document)


def validate(document: dict[str, Any], seed: int, report: Callable[[str], None]) -> dict[str, Any]:
    """The "validation" of the simulation's document: topo, and no communication, in every layout of
    `document`, a benchmark that `check` accepts, with their prediction."""
    setup = calibrate_nodes.from_nodes(document)
    points, cpu = [], []
    for cell, series in _cells_and_series(document):
        report(f"{cell.workload.label}, {cell.layout}: {series}")
        place = Calibrating(cell.workload.name, cell.layout, series)
        p = _parameters(setup, document, place)
        predicted, spent = _predict(place, p, seed)
        about = {"cell": f"{cell.workload.label}, {cell.layout}", "series": series,
                 "ranks": cell.layout.ranks, "calibrated": place in calibrate_nodes.CELLS}
        points.append({**about, "calibrated": place == ALONE, "unit": cell.workload.unit,
                       **beside(cell.values[series].values(), predicted)})
        if spent is not None and (counted := calibrate_nodes.of_cell(document, place)):
            times = [1e3 * horovods_cpu(job, "planned_iterations") for job in counted]
            cpu.append({**about, "unit": "ms a step", **beside(times, 1e3 * spent)})
    return {"band": BAND, "points": points, "cpu": cpu,
            "parameters": {"virtual hosts": setup.to_json()},
            "calibrated_on": ", ".join(map(str, calibrate_nodes.CELLS))}


def _cells_and_series(document: dict[str, Any]) -> Iterator[tuple[Cell, str]]:
    """What can be predicted, in the order of the benchmark."""
    for cell in cells(document["measurements"]):
        if cell.workload.name in WORKLOADS:
            yield from ((cell, series) for series in PREDICTED if cell.values.get(series))


def _parameters(setup: Setup, document: dict[str, Any], place: Calibrating) -> Parameters:
    """Of the layout, with the bytes and the buckets of a step, which the counters tell."""
    p = calibrate_nodes.in_layout(setup, place.layout).parameters
    if place.workload == "large":
        return dataclasses.replace(p, compute_seconds=SHORTEST, gradient_bytes=SIZE_LARGE,
                                   bucket_bytes=SIZE_LARGE, tensors=1)
    counted = [job for job in calibrate_nodes.of_cell(document, place) if job.get("step_bytes")]
    if not counted:  # nothing was reduced
        return p
    size = statistics.median(job["step_bytes"] for job in counted)
    buckets = statistics.median(stats["planned_buckets"] / stats["planned_iterations"]
                                for job in counted for stats in job["stats"])
    return dataclasses.replace(p, gradient_bytes=size, bucket_bytes=size / max(1, round(buckets)))


def _predict(place: Calibrating, p: Parameters, seed: int) -> tuple[float, float | None]:
    """(in the unit of the workload, CPU seconds of Horovod's threads of a rank in a step)."""
    ranks = place.layout.ranks
    if place.series == LIMIT:
        return study.ideal_images_per_second(p, ranks, seed), None
    result = model.simulate(p, TOPO, ranks, STEPS, seed)
    step = statistics.fmean(result.steps)
    return (1e6 * step if place.workload == "large" else ranks * p.batch / step,
            result.background_cpu * step)
