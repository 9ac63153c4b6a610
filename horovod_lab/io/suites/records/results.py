"""What the measurements amount to: medians, ratios in pairs of a round, targets met or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from horovod_lab.io.peers import PEERS
from horovod_lab.io.suites.cell import Cell
from horovod_lab.io.suites.records.targets import (
    HIO,
    SHUFFLED,
    SPEED,
    TARGETS,
    Target,
)
from horovod_lab.measuring.comparison import Spread, ratio
from horovod_lab.measuring.verdict import Verdict, verdict


class RecordsCell(Cell):
    ORDER = PEERS

    def ratio(self, series: str, base: str, key: str = SPEED) -> Spread | None:
        """Of the rounds that have both."""
        return self.compared(series, base, key, ratio)

    def counted(self, series: str, key: str) -> Spread | None:
        """Of what not every stand can count; None where this one cannot."""
        has = all(key in one for one in self.measurements
                  if one["series"] == series and "failed" not in one)
        return self.spread(series, key) if has else None

    def base(self) -> str | None:
        """What the others are compared with: hio's first series that was measured."""
        return next((name for name in (HIO, "hio-lmdb") if self.values(name, SPEED)), None)


def judge(target: Target, cell: RecordsCell, absent: Mapping[str, str]) -> Verdict:
    """`absent`: by series, why it cannot be measured."""
    needs = (target.series, target.over)
    reasons = [absent[one] for one in needs if one in absent]
    if reasons:
        return Verdict(target, None, None, f"not measured: {reasons[0]}")
    failed = [one for one in needs if cell.failures(one)]
    missing = [one for one in needs if not cell.values(one, target.of)]
    if target.shuffled and not failed and not missing:
        entropies = {one: round(100 * cell.spread(one, "rl").median) for one in needs}
        orderly = [f"{one} {rl} %" for one, rl in entropies.items() if rl < SHUFFLED]
        if orderly:
            return Verdict(target, cell.ratio(*needs, target.of), None,
                           f"does not count: RL of {', '.join(orderly)}, below {SHUFFLED} %")
    return verdict(target, cell.ratio(*needs, target.of),
                   f"{', '.join(failed)} failed" if failed else "", missing)


def verdicts(document: Mapping[str, Any]) -> Iterator[tuple[int, Verdict]]:
    """With the number of ranks; of targets for a number that was not measured, too."""
    found = {cell.ranks: cell for cell in RecordsCell.each(document)}
    absent = document["not_measured"]
    settings = document["settings"]
    here = settings["stand"], settings.get("nodes", 1)
    for target in TARGETS:
        if (target.testbed, target.nodes) != here:
            continue
        for ranks in found if target.ranks is None else [target.ranks]:
            if ranks in found:
                yield ranks, judge(target, found[ranks], absent)
            else:
                yield ranks, Verdict(target, None, None, f"not measured: no job of {ranks} ranks")


def summary(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The table of targets for machines: part of the JSON file."""
    return [{"ranks": ranks, "series": one.target.series, "of": one.target.of,
             "target": str(one.target), "value": one.value and asdict(one.value), "met": one.met,
             "why": one.why} for ranks, one in verdicts(document)]
