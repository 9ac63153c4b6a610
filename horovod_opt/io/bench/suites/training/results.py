"""What the measurements amount to: images/s and processor time beside the reference's, in pairs of
a round, and which targets are met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any

from horovod_opt.io.bench.suites.training.jobs import SOURCES
from horovod_opt.measuring.comparison import Spread, by_round, compare, difference, ratio
from horovod_opt.measuring.verdict import Bound, Verdict, verdict

SPEED, CPU, ALONE = "images_per_second", "cpu_ms_per_image", "input_cpu_ms_per_image"


@dataclass(frozen=True)
class Target(Bound):
    """images/s of `series` as a multiple of its reference's, in pairs of a round."""

    series: str
    least: float
    most: None = None

    @property
    def unit(self) -> str:
        return f"x {SOURCES[self.series].reference}"


TARGETS = (Target("hio", 0.97), Target("hio-raw", 0.97))


@dataclass(frozen=True)
class Cell:
    """The measurements at a number of ranks."""

    ranks: int
    measurements: Sequence[Mapping[str, Any]]

    @property
    def series(self) -> list[str]:
        """In the order of SOURCES."""
        found = {one["series"] for one in self.measurements}
        return [name for name in SOURCES if name in found]

    def values(self, series: str, key: str) -> dict[int, float]:
        return by_round(self.measurements, series, itemgetter(key))

    def spread(self, series: str, key: str) -> Spread | None:
        values = list(self.values(series, key).values())
        return Spread.of(values) if values else None

    def speed(self, series: str) -> Spread | None:
        """As a multiple of the reference's; of the rounds that have both."""
        return self._compared(series, SPEED, ratio)

    def input_cpu(self, series: str) -> Spread | None:
        """Processor time of the training more than with the reference, ms an image."""
        return self._compared(series, CPU, difference)

    def failures(self, series: str) -> list[str]:
        return [one["failed"] for one in self.measurements
                if one["series"] == series and "failed" in one]

    def _compared(self, series: str, key: str, how: Any) -> Spread | None:
        base = SOURCES[series].reference
        return compare(self.values(series, key), self.values(base, key), how) if base else None


def cells(document: Mapping[str, Any]) -> Iterator[Cell]:
    """By number of ranks."""
    measurements = document["measurements"]
    for ranks in sorted({one["ranks"] for one in measurements}):
        yield Cell(ranks, [one for one in measurements if one["ranks"] == ranks])


def judge(target: Target, cell: Cell) -> Verdict:
    needs = (target.series, SOURCES[target.series].reference)
    failed = [one for one in needs if cell.failures(one)]
    missing = [one for one in needs if not cell.values(one, SPEED)]
    return verdict(target, cell.speed(target.series),
                   f"{', '.join(failed)} failed" if failed else "", missing)


def verdicts(document: Mapping[str, Any]) -> Iterator[tuple[int, Verdict]]:
    """With the number of ranks."""
    for cell in cells(document):
        for target in TARGETS:
            yield cell.ranks, judge(target, cell)


def summary(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The table of targets for machines: part of the JSON file."""
    return [{"ranks": ranks, "series": one.target.series, "target": str(one.target),
             "value": one.value and asdict(one.value), "met": one.met, "why": one.why}
            for ranks, one in verdicts(document)]
