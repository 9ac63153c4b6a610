"""What the measurements amount to: images/s and processor time beside the reference's, in pairs of
a round, and which targets are met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from horovod_lab.io.suites.cell import Cell
from horovod_lab.io.suites.training.jobs import SOURCES
from horovod_lab.measuring.comparison import Spread, difference, ratio
from horovod_lab.measuring.verdict import Bound, Verdict, verdict

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


class TrainingCell(Cell):
    ORDER = SOURCES

    def speed(self, series: str) -> Spread | None:
        """As a multiple of the reference's; of the rounds that have both."""
        return self._beside_reference(series, SPEED, ratio)

    def input_cpu(self, series: str) -> Spread | None:
        """Processor time of the training more than with the reference, ms an image."""
        return self._beside_reference(series, CPU, difference)

    def _beside_reference(self, series: str, key: str, how: Any) -> Spread | None:
        base = SOURCES[series].reference
        return self.compare(series, base, key, how) if base else None


def judge(target: Target, cell: TrainingCell) -> Verdict:
    needs = (target.series, SOURCES[target.series].reference)
    failures = [name for name in needs if cell.failures(name)]
    missing = [name for name in needs if not cell.values(name, SPEED)]
    return verdict(target, cell.speed(target.series),
                   f"{', '.join(failures)} failed" if failures else "", missing)


def verdicts(document: Mapping[str, Any]) -> Iterator[tuple[int, Verdict]]:
    """With the number of ranks."""
    for cell in TrainingCell.by_ranks(document):
        for target in TARGETS:
            yield cell.ranks, judge(target, cell)


def summary(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The table of targets for machines: part of the JSON file."""
    return [{"ranks": ranks, "series": result.target.series, "target": str(result.target),
             "value": result.value and asdict(result.value), "met": result.met, "why": result.why}
            for ranks, result in verdicts(document)]
