"""What the measurements amount to: speeds by number of threads, and this project's beside those of
tf.data."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from horovod_lab.io.suites.cell import Measurements
from horovod_lab.measuring.comparison import Spread, compare, ratio
from horovod_lab.measuring.verdict import Bound, Verdict, verdict

LABELS = {"tf-data": "tf.data", "hio": "hio"}
WITHOUT, WITH = PREPROCESSING = ("without", "with")
SPEED, STEP_SECONDS = "images_per_second", "step_seconds"
WARM_UP = 1  # rounds that do not count


class Kind(NamedTuple):
    """What is the same for all numbers of threads."""

    preprocessing: str
    batch: int
    prefetch: int

    def __str__(self) -> str:
        return f"{self.preprocessing} preprocessing, batch {self.batch}, prefetch {self.prefetch}"


@dataclass(frozen=True)
class Target(Bound):
    """images/s of `series` as a multiple of those of `over`, in pairs of a round."""

    series: str
    over: str
    least: float
    most: float | None = None

    @property
    def unit(self) -> str:
        return f"x {self.over}"


TARGETS = (Target("hio", "tf-data", 0.95),)


@dataclass(frozen=True)
class StreamCell(Measurements):
    """The runs of a kind with so many threads."""

    ORDER = LABELS

    kind: Kind
    threads: int

    def ratio(self, series: str, over: str) -> Spread | None:
        return self.compare(series, over, SPEED, ratio)

    def over(self, series: str, base: StreamCell) -> Spread | None:
        """images/s as a multiple of those with other threads, in pairs of a round."""
        return compare(self.values(series, SPEED), base.values(series, SPEED), ratio)


def cells(document: Mapping[str, Any]) -> dict[Kind, dict[int, StreamCell]]:
    """By kind and number of threads, without the rounds that warm up."""
    settings = document["settings"]
    measurements = [measurement for measurement in document["measurements"]
                    if measurement["round"] >= WARM_UP]
    kinds = [Kind(*kind) for kind in itertools.product(
        *(settings[name] for name in Kind._fields))] if measurements else []
    return {kind: {threads: StreamCell(list(_runs(measurements, kind, threads)), kind, threads)
                   for threads in settings["threads"]} for kind in kinds}


def _runs(measurements: list[dict[str, Any]], kind: Kind, threads: int) -> Iterator[dict[str, Any]]:
    """One of each job, or why that failed."""
    for job in measurements:
        about = {"round": job["round"], "series": job["series"]}
        if "failed" in job:
            yield {**about, "failed": job["failed"]}
            continue
        for run in job["runs"]:
            preprocessing = WITHOUT if run["pixels"] is None else WITH
            if (preprocessing, run["batch"], run["prefetch"], run["threads"]) == (*kind, threads):
                yield {**about, **run, "waiting": run["waited_seconds"] / run["seconds"]}


def judge(target: Target, cell: StreamCell) -> Verdict:
    needs = (target.series, target.over)
    failures = [name for name in needs if cell.failures(name)]
    missing = [name for name in needs if not cell.values(name, SPEED)]
    return verdict(target, cell.ratio(*needs), f"{', '.join(failures)} failed" if failures else "",
                   missing)


def verdicts(document: Mapping[str, Any]) -> Iterator[tuple[StreamCell, Verdict]]:
    for by_threads in cells(document).values():
        for cell in by_threads.values():
            for target in TARGETS:
                yield cell, judge(target, cell)


def summary(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The table of targets for machines: part of the JSON file."""
    return [{**cell.kind._asdict(), "threads": cell.threads, "series": result.target.series,
             "target": str(result.target), "value": result.value and asdict(result.value),
             "met": result.met, "why": result.why} for cell, result in verdicts(document)]
