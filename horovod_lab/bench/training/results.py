"""What the measurements of a benchmark amount to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from horovod_lab.bench.training.jobs import Cell
from horovod_lab.bench.worker_job import BASE, LIMIT, limit_and_base_first
from horovod_lab.measuring.comparison import ConfidenceInterval, Noise, by_round, pairs, ratio

FIELDS = tuple(Cell.__dataclass_fields__)
PARTS = ("computation", "waiting", "negotiation", "data")


@dataclass(frozen=True)
class Row:
    """One series in one cell. `gain`: images/s over those of off in the same round, minus 1;
    `efficiency`: images/s over those without communication in the same round. `background` is the
    CPU time of the background thread as a share of a core, `switches` its process' involuntary
    context switches a step; both are means over ranks, and None of a Horovod without counters."""

    cell: Cell
    series: str
    images_per_second: ConfidenceInterval | None
    gain: ConfidenceInterval | None
    efficiency: ConfidenceInterval | None
    background: float | None
    switches: float | None
    breakdown: dict[str, float] | None  # seconds a step
    failed: int


def cell_of(job: dict[str, Any]) -> Cell:
    return Cell(**{name: job[name] for name in FIELDS})


def rows(measurements: Sequence[dict[str, Any]]) -> Iterator[Row]:
    """By cell, as they were first measured; in each the limit and off first."""
    cells: dict[Cell, list[dict[str, Any]]] = {}
    for job in measurements:
        cells.setdefault(cell_of(job), []).append(job)
    for cell, of_cell in cells.items():
        names = sorted(dict.fromkeys(job["series"] for job in of_cell), key=limit_and_base_first)
        values = {name: by_round(of_cell, name, itemgetter("images_per_second")) for name in names}
        base, limit = values.get(BASE, {}), values.get(LIMIT, {})
        images = _intervals({name: list(rates.values()) for name, rates in values.items()})
        gains = _intervals({name: pairs(rates, base, ratio) for name, rates in values.items()
                            if name != BASE})
        efficiencies = _intervals({name: pairs(rates, limit, ratio)
                                   for name, rates in values.items()
                                   if name != LIMIT})
        for name in names:
            good = [job for job in of_cell if job["series"] == name and "failed" not in job]
            yield Row(
                cell, name, images.get(name),
                gain=gains[name].minus(1) if name in gains else None,
                efficiency=efficiencies.get(name),
                background=_mean(good, lambda stats, job: (
                    stats["background_user_seconds"] + stats["background_system_seconds"])
                    / stats["elapsed_seconds"]),
                switches=_mean(good, lambda stats, job:
                               stats["process_involuntary_switches"] / job["steps"]),
                breakdown=_parts(good),
                failed=sum("failed" in job for job in of_cell if job["series"] == name))


def _intervals(samples: Mapping[str, Sequence[float]]) -> dict[str, ConfidenceInterval]:
    """Of the series of a cell that have values. Few rounds say little about a series' noise alone,
    so it is estimated from all of them together: a machine is as noisy for one as for another."""
    noise = Noise.of(list(samples.values()))
    return {name: ConfidenceInterval.of(values, noise)
            for name, values in samples.items() if values}


def _mean(measurements: Sequence[dict[str, Any]],
          value: Callable[[dict[str, float], dict[str, Any]], float]) -> float | None:
    values = [value(stats, job) for job in measurements for stats in job["stats"] or ()]
    return sum(values) / len(values) if values else None


def _parts(measurements: Sequence[dict[str, Any]]) -> dict[str, float] | None:
    parts = [job["breakdown"] for job in measurements if job["breakdown"]]
    if not parts:
        return None
    return {name: sum(part[name] for part in parts) / len(parts) for name in PARTS}
