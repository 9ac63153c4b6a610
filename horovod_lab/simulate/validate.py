"""Prediction against measurement: what `horovod-opt bench` measured, and its simulation."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from horovod_lab.bench.worker_job import LIMIT
from horovod_lab.simulate import calibrate, model, study
from horovod_lab.simulate.parameters import ParameterError, Setup

# In these MPI moves the data and nobody's spinning hides what it costs; off comes last.
CALIBRATING = ("gs", "gs+nbcs", "nbcs", "topo", "off")
BAND = 0.15  # relative error that the model is meant to stay within
STEPS = 20
# Trainable parameters of 4 bytes, in millions.
SIZES = {"ResNet18": 11.7, "ResNet34": 21.8, "ResNet50": 25.6, "ResNet101": 44.6, "ResNet152": 60.3,
         "AlexNet": 61.0, "GoogLeNet": 7.0, "Inception-v3": 23.8, "VGG16": 138.4}


def cells(document: dict[str, Any]) -> Iterator[tuple[tuple, dict[tuple[str, int], list[float]]]]:
    """((model, framework, input, batch, pixels), seconds of a step by (series, ranks)) of what can
    be predicted: weak scaling, on the hosts' cores, gradients reduced while others are computed."""
    by_cell: dict[tuple, dict[tuple[str, int], list[float]]] = {}
    if document["settings"]["scaling"] != "weak":
        return iter(())
    for job in document["measurements"]:
        series = job["series"]
        if ("failed" in job or job["separate"] or job["ranks"] < 2
                or series not in (LIMIT, *model.MODES)):
            continue
        cell = tuple(job[name] for name in ("model", "framework", "input", "batch", "pixels"))
        step = job["ranks"] * job["batch"] / job["images_per_second"]
        by_cell.setdefault(cell, {}).setdefault((series, job["ranks"]), []).append(step)
    return iter(by_cell.items())


def _calibrating(steps: dict[tuple[str, int], list[float]]) -> tuple[int, str] | None:
    """(ranks, mode) of the point that calibrates beside no communication."""
    pairs = [(ranks, number, mode) for number, mode in enumerate(CALIBRATING)
             for series, ranks in steps if series == mode and (LIMIT, ranks) in steps]
    return min(pairs)[::2] if pairs else None


def check(document: dict[str, Any], calibrated: bool) -> None:
    """Raises ParameterError if nothing of the benchmark can be predicted. `calibrated`: by a
    profile, so that no point of the benchmark has to."""
    if not any(calibrated or _calibrating(steps) for _, steps in cells(document)):
        raise ParameterError(f"the benchmark has no number of ranks above 1 at which {LIMIT!r} and "
                             f"one of {', '.join(CALIBRATING)} were measured (weak scaling)")


def validate(document: dict[str, Any], profiled: Setup | None, seed: int,
             report: Callable[[str], None]) -> dict[str, Any]:
    """The "validation" of the simulation's document: every measured (mode, ranks) of `document`,
    a benchmark that `check` accepts, with its prediction.

    Without a profile, two points of each model calibrate, both at the smallest number of ranks:
    no communication, and the first of CALIBRATING that was measured. They are marked.
    """
    points, setups, calibrated_on = [], {}, []
    capacities = [host[1] for host in document["settings"]["hosts"]]
    threads = document["settings"]["threads"]
    for cell, steps in cells(document):
        batch = cell[3]
        name = f"{cell[0]}, {cell[1]}, {cell[2]} input, {cell[4]} pixels, batch {batch}"
        setup, calibrating = profiled, set()
        if setup is None:
            if not (point := _calibrating(steps)):
                continue
            ranks, mode = point
            calibrating = {(LIMIT, ranks), (mode, ranks)}
            report(f"{name}: calibrates on {mode}")
            setup = calibrate.from_two_points(
                document["machine"]["cores"], min([ranks, *capacities]), threads, ranks, batch,
                statistics.median(steps[LIMIT, ranks]), mode,
                statistics.median(steps[mode, ranks]), 4e6 * SIZES[cell[0]], seed)
            calibrated_on.append(f"{LIMIT} and {mode} at {ranks} ranks")
        setups[name] = setup.to_json()
        for (series, ranks), rates in sorted(steps.items(), key=lambda item: item[0][::-1]):
            p = dataclasses.replace(setup.parameters, batch=batch,
                                    ranks_per_node=min([ranks, *capacities]))
            if ranks % p.ranks_per_domain or not study.possible(p, series):
                continue
            report(f"{name}: {series}, {ranks} ranks")
            points.append({
                "cell": name, "series": series, "ranks": ranks,
                "calibrated": (series, ranks) in calibrating,
                **beside((ranks * batch / seconds for seconds in rates),
                         _rate(p, series, ranks, seed))})
    return {"band": BAND, "points": points, "parameters": setups,
            "calibrated_on": "; ".join(dict.fromkeys(calibrated_on)) or "the profile"}


def beside(values: Iterable[float], predicted: float) -> dict[str, float]:
    """Of a point: the measurements, and how far their prediction is from their median."""
    ordered = sorted(values)
    median = statistics.median(ordered)
    return {"n": len(ordered), "measured": median, "low": ordered[0], "high": ordered[-1],
            "predicted": predicted, "error": predicted / median - 1}


def _rate(p: Any, series: str, ranks: int, seed: int) -> float:
    """Images/s."""
    if series == LIMIT:
        return study.ideal_images_per_second(p, ranks, seed)
    steps = model.simulate(p, series, ranks, STEPS, seed).steps
    return ranks * p.batch / statistics.fmean(steps)
