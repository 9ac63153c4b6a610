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
        return self.compare(series, base, key, ratio)

    def storage_spread(self, series: str, key: str) -> Spread | None:
        """Of what not every testbed can count; None where this one cannot."""
        has = all(key in measurement for measurement in self.measurements
                  if measurement["series"] == series and "failed" not in measurement)
        return self.spread(series, key) if has else None

    def base(self) -> str | None:
        """What the others are compared with: hio's first series that was measured."""
        return next((name for name in (HIO, "hio-lmdb") if self.values(name, SPEED)), None)


def judge(target: Target, cell: RecordsCell, absent: Mapping[str, str]) -> Verdict:
    """`absent`: by series, why it cannot be measured."""
    needs = (target.series, target.over)
    reasons = [absent[name] for name in needs if name in absent]
    if reasons:
        return Verdict(target, None, None, f"not measured: {reasons[0]}")
    failures = [name for name in needs if cell.failures(name)]
    missing = [name for name in needs if not cell.values(name, target.of)]
    if target.needs_shuffle and not failures and not missing:
        entropies = {name: round(100 * cell.spread(name, "rl").median) for name in needs}
        orderly = [f"{name} {rl} %" for name, rl in entropies.items() if rl < SHUFFLED]
        if orderly:
            return Verdict(target, cell.ratio(*needs, target.of), None,
                           f"does not count: RL of {', '.join(orderly)}, below {SHUFFLED} %")
    return verdict(target, cell.ratio(*needs, target.of),
                   f"{', '.join(failures)} failed" if failures else "", missing)


def verdicts(document: Mapping[str, Any]) -> Iterator[tuple[int, Verdict]]:
    """With the number of ranks; of targets for a number that was not measured, too."""
    cells = {cell.ranks: cell for cell in RecordsCell.by_ranks(document)}
    absent = document["not_measured"]
    settings = document["settings"]
    place = settings["stand"], settings.get("nodes", 1)
    for target in TARGETS:
        if (target.testbed, target.nodes) != place:
            continue
        for ranks in cells if target.ranks is None else [target.ranks]:
            if ranks in cells:
                yield ranks, judge(target, cells[ranks], absent)
            else:
                yield ranks, Verdict(target, None, None, f"not measured: no job of {ranks} ranks")


def summary(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The table of targets for machines: part of the JSON file."""
    return [{"ranks": ranks, "series": result.target.series, "of": result.target.of,
             "target": str(result.target), "value": result.value and asdict(result.value),
             "met": result.met, "why": result.why} for ranks, result in verdicts(document)]
