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
    def what(self) -> str:
        return {SEEKING: "bytes of seeking"}.get(self.of, self.of)


TARGETS = (Target("lmm", SEEKING, least=1), Target("prov", SEEKING, most=0),
           Target("coal", REQUESTS, "prov", most=1 / 20),
           Target("stag", INVERSIONS, "coal", most=1 / 10))


class LadderCell(Cell):
    ORDER = RUNGS

    def at_storage(self, series: str, key: str) -> dict[int, float]:
        """By round: what the storage counted, or, where it cannot, what the strategy asked for."""
        def value(one: Mapping[str, Any]) -> float:
            counted = one["stand"].get(key)
            return one[key] if counted is None else counted

        return {one["round"]: value(one) for one in self.measurements
                if one["series"] == series and "failed" not in one}

    def storage_spread(self, series: str, key: str) -> Spread | None:
        values = list(self.at_storage(series, key).values())
        return Spread.of(values) if values else None


def _value(target: Target, cell: LadderCell) -> Spread | None:
    """Nothing in place of nothing is as little as can be: 0 of 0 is 0."""
    if not target.over:
        return cell.spread(target.series, target.of)
    ours, theirs = (cell.at_storage(one, target.of) for one in (target.series, target.over))
    ratios = [ours[number] / theirs[number] if theirs[number] else float(ours[number])
              for number in sorted(ours.keys() & theirs.keys())]
    return Spread.of(ratios) if ratios else None


def judge(target: Target, cell: LadderCell) -> Verdict:
    needs = [one for one in (target.series, target.over) if one]
    failed = [one for one in needs if cell.failures(one)]
    missing = [one for one in needs if not cell.values(one, SPEED)]
    return verdict(target, _value(target, cell), f"{', '.join(failed)} failed" if failed else "",
                   missing)


def verdicts(document: Mapping[str, Any]) -> Iterator[tuple[int, Verdict]]:
    """With the number of ranks, where there are several nodes: with one, nobody's requests come
    between those of others."""
    for cell in LadderCell.each(document):
        if document["settings"]["nodes"] > 1:
            for target in TARGETS:
                yield cell.ranks, judge(target, cell)


def summary(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The table of targets for machines: part of the JSON file."""
    return [{"ranks": ranks, "series": one.target.series, "of": one.target.of,
             "target": str(one.target), "value": one.value and asdict(one.value), "met": one.met,
             "why": one.why} for ranks, one in verdicts(document)]
