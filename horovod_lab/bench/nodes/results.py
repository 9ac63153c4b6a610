"""What the measurements amount to: medians, speeds in pairs of a round, targets met or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any

from horovod_lab.bench.nodes.rows import CELLS, WORKLOADS, Layout, Workload
from horovod_lab.bench.nodes.targets import IDEAL, TARGETS, VALUE, Target
from horovod_lab.bench.worker_job import LIMIT
from horovod_lab.measuring.comparison import Spread, by_round, compare
from horovod_lab.measuring.verdict import Verdict, verdict


@dataclass(frozen=True)
class Cell:
    """A workload in a layout. By series: the values by round, the least seconds that the bytes of a
    step take on the wire, and how many jobs failed."""

    workload: Workload
    layout: Layout
    values: Mapping[str, Mapping[int, float]]
    wire: Mapping[str, Mapping[int, float]]
    steps: Mapping[str, Mapping[int, float]]
    failures: Mapping[str, int]

    def speed(self, series: str, base: str) -> Spread | None:
        """How many times as fast as `base`, in the rounds that have both."""
        return compare(self.values.get(series, {}), self.values.get(base, {}), self.workload.speed)

    def best(self, series: Sequence[str]) -> str | None:
        """The fastest of these in the rounds that all of them have."""
        found = [one for one in series if self.values.get(one)]
        speeds = {one: self.speed(one, found[0]) for one in found}
        return max((one for one in found if speeds[one]),
                   key=lambda one: speeds[one].median, default=None)

    def ideal(self, series: str) -> Spread | None:
        """The time of a step as a multiple of the longer of computing alone and the wire."""
        alone = self.steps.get(LIMIT, {})
        least = {number: max(alone[number], seconds)
                 for number, seconds in self.wire.get(series, {}).items() if number in alone}
        return compare(self.steps.get(series, {}), least, lambda step, limit: step / limit)


def cells(measurements: Sequence[dict[str, Any]]) -> Iterator[Cell]:
    """Those that anything was measured of, in the order of CELLS."""
    for (workload, layout), names in CELLS.items():
        mine = [one for one in measurements
                if (one["workload"], one["layout"]) == (workload, layout.name)]
        if not mine:
            continue
        trained = [one for one in mine if "step_seconds" in one]
        sent = [one for one in trained if one.get("step_bytes") and layout.megabits]
        yield Cell(
            WORKLOADS[workload], layout,
            {name: by_round(mine, name, itemgetter(WORKLOADS[workload].key)) for name in names},
            {name: by_round(sent, name, lambda one: _wire_seconds(one["step_bytes"], layout))
             for name in names},
            {name: by_round(trained, name, itemgetter("step_seconds")) for name in names},
            {name: sum("failed" in one for one in mine if one["series"] == name)
             for name in names})


def _wire_seconds(step_bytes: float, layout: Layout) -> float:
    """Each byte leaves a node as often as in a ring; 8 bits each, one way at a time."""
    return 2 * (layout.hosts - 1) / layout.hosts * step_bytes * 8 / (layout.megabits * 1e6)


def judge(target: Target, cell: Cell) -> Verdict:
    failed = [one for one in target.needs if cell.failures.get(one)]
    missing = [one for one in target.needs if not cell.values.get(one)]
    return verdict(target, _value(target, cell), f"{', '.join(failed)} failed" if failed else "",
                   missing)


def _value(target: Target, cell: Cell) -> Spread | None:
    if target.of == VALUE:
        values = list(cell.values.get(target.series, {}).values())
        return Spread.of(values) if values else None
    if target.of == IDEAL:
        return cell.ideal(target.series)
    best = cell.best(target.over)
    return best and cell.speed(target.series, best)


def verdicts(cell: Cell) -> list[Verdict]:
    return [judge(target, cell) for target in TARGETS
            if (target.workload, target.layout) == (cell.workload.name, cell.layout)]


def summary(measurements: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The table of targets for machines: part of the JSON file."""
    return [{"workload": cell.workload.name, "layout": cell.layout.name,
             "series": one.target.series, "target": str(one.target),
             "value": one.value and asdict(one.value), "met": one.met, "why": one.why}
            for cell in cells(measurements) for one in verdicts(cell)]
