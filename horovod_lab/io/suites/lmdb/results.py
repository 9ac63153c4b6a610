"""What the measurements amount to: what each rung asks for beside another, and which targets are
met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from horovod_lab.io.strategies import RUNGS
from horovod_lab.io.suites.cell import Cell
from horovod_lab.measuring.comparison import Spread
from horovod_lab.measuring.verdict import Bound, Verdict, verdict

SPEED, REQUESTS, INVERSIONS = "samples_per_second", "requests", "inversions"
SEEKING = "seeking_bytes"


@dataclass(frozen=True)
class Target(Bound):
    """`of` of `series`, in bytes or as a multiple of that of `over` in the same round."""

    series: str
    of: str
    over: str = ""
    least: float | None = None
    most: float | None = None

    @property
    def unit(self) -> str:
        return f"x {self.over}" if self.over else "bytes"

    @property
    def quantity(self) -> str:
        return {SEEKING: "bytes of seeking"}.get(self.of, self.of)


TARGETS = (Target("lmm", SEEKING, least=1), Target("prov", SEEKING, most=0),
           Target("coal", REQUESTS, "prov", most=1 / 20),
           Target("stag", INVERSIONS, "coal", most=1 / 10))


class LadderCell(Cell):
    ORDER = RUNGS

    def at_storage(self, series: str, key: str) -> dict[int, float]:
        """By round: what the storage counted, or, where it cannot, what the strategy asked for."""
        def value(measurement: Mapping[str, Any]) -> float:
            count = measurement["stand"].get(key)
            return measurement[key] if count is None else count

        return {measurement["round"]: value(measurement) for measurement in self.measurements
                if measurement["series"] == series and "failed" not in measurement}

    def storage_spread(self, series: str, key: str) -> Spread | None:
        values = list(self.at_storage(series, key).values())
        return Spread.of(values) if values else None


def _value(target: Target, cell: LadderCell) -> Spread | None:
    """Nothing in place of nothing is as little as can be: 0 of 0 is 0."""
    if not target.over:
        return cell.spread(target.series, target.of)
    values, base_values = (cell.at_storage(name, target.of)
                           for name in (target.series, target.over))
    ratios = [values[number] / base_values[number] if base_values[number] else float(values[number])
              for number in sorted(values.keys() & base_values.keys())]
    return Spread.of(ratios) if ratios else None


def judge(target: Target, cell: LadderCell) -> Verdict:
    needs = [name for name in (target.series, target.over) if name]
    failures = [name for name in needs if cell.failures(name)]
    missing = [name for name in needs if not cell.values(name, SPEED)]
    return verdict(target, _value(target, cell),
                   f"{', '.join(failures)} failed" if failures else "", missing)


def verdicts(document: Mapping[str, Any]) -> Iterator[tuple[int, Verdict]]:
    """With the number of ranks, where there are several nodes: with one, nobody's requests come
    between those of others."""
    for cell in LadderCell.by_ranks(document):
        if document["settings"]["nodes"] > 1:
            for target in TARGETS:
                yield cell.ranks, judge(target, cell)


def summary(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The table of targets for machines: part of the JSON file."""
    return [{"ranks": ranks, "series": result.target.series, "of": result.target.of,
             "target": str(result.target), "value": result.value and asdict(result.value),
             "met": result.met, "why": result.why} for ranks, result in verdicts(document)]
