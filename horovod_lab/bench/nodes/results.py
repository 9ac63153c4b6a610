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
        names = [name for name in series if self.values.get(name)]
        speeds = {name: self.speed(name, names[0]) for name in names}
        return max((name for name in names if speeds[name]),
                   key=lambda name: speeds[name].median, default=None)

    def ideal(self, series: str) -> Spread | None:
        """The time of a step as a multiple of the longer of computing alone and the wire."""
        alone = self.steps.get(LIMIT, {})
        least = {number: max(alone[number], seconds)
                 for number, seconds in self.wire.get(series, {}).items() if number in alone}
        return compare(self.steps.get(series, {}), least, lambda step, limit: step / limit)


def cells(measurements: Sequence[dict[str, Any]]) -> Iterator[Cell]:
    """Those that anything was measured of, in the order of CELLS."""
    for (workload, layout), names in CELLS.items():
        of_cell = [job for job in measurements
                   if (job["workload"], job["layout"]) == (workload, layout.name)]
        if not of_cell:
            continue
        of_steps = [job for job in of_cell if "step_seconds" in job]
        of_bytes = [job for job in of_steps if job.get("step_bytes") and layout.megabits]
        yield Cell(
            WORKLOADS[workload], layout,
            {name: by_round(of_cell, name, itemgetter(WORKLOADS[workload].key)) for name in names},
            {name: by_round(of_bytes, name, lambda job: _wire_seconds(job["step_bytes"], layout))
             for name in names},
            {name: by_round(of_steps, name, itemgetter("step_seconds")) for name in names},
            {name: sum("failed" in job for job in of_cell if job["series"] == name)
             for name in names})


def _wire_seconds(step_bytes: float, layout: Layout) -> float:
    """Each byte leaves a node as often as in a ring; 8 bits each, one way at a time."""
    return 2 * (layout.hosts - 1) / layout.hosts * step_bytes * 8 / (layout.megabits * 1e6)


def judge(target: Target, cell: Cell) -> Verdict:
    failed = [name for name in target.needs if cell.failures.get(name)]
    absent = [name for name in target.needs if not cell.values.get(name)]
    return verdict(target, _value(target, cell), f"{', '.join(failed)} failed" if failed else "",
                   absent)


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
             "series": verdict.target.series, "target": str(verdict.target),
             "value": verdict.value and asdict(verdict.value), "met": verdict.met,
             "why": verdict.why}
            for cell in cells(measurements) for verdict in verdicts(cell)]
