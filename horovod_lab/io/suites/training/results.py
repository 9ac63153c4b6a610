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
        return self.compared(series, base, key, how) if base else None


def judge(target: Target, cell: TrainingCell) -> Verdict:
    needs = (target.series, SOURCES[target.series].reference)
    failed = [one for one in needs if cell.failures(one)]
    missing = [one for one in needs if not cell.values(one, SPEED)]
    return verdict(target, cell.speed(target.series),
                   f"{', '.join(failed)} failed" if failed else "", missing)


def verdicts(document: Mapping[str, Any]) -> Iterator[tuple[int, Verdict]]:
    """With the number of ranks."""
    for cell in TrainingCell.each(document):
        for target in TARGETS:
            yield cell.ranks, judge(target, cell)


def summary(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The table of targets for machines: part of the JSON file."""
    return [{"ranks": ranks, "series": one.target.series, "target": str(one.target),
             "value": one.value and asdict(one.value), "met": one.met, "why": one.why}
            for ranks, one in verdicts(document)]
