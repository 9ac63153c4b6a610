"""What the measurements amount to: medians, speeds in pairs of a round, targets met or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any

from horovod_lab.bench.steps.kinds import KINDS, OTHERS, TOPO, Kind
from horovod_lab.bench.steps.targets import ROUNDS, SPEED, TARGETS, Target
from horovod_lab.bench.worker_job import BASE, limit_and_base_first
from horovod_lab.measuring.comparison import Spread, by_round, compare, ratio
from horovod_lab.measuring.verdict import Verdict, verdict

NOT_SUPPORTED = "not supported by this build"


@dataclass(frozen=True)
class Cell:
    """A kind of step at a number of ranks. By series: the values by round, and why jobs failed.
    `rounds`: the most rounds of negotiation that ranks asked for in the window of a job of topo."""

    kind: Kind
    ranks: int
    values: Mapping[str, Mapping[int, float]]
    failures: Mapping[str, Sequence[str]]
    rounds: int | None

    def speed(self, series: str, base: str) -> Spread | None:
        """How many times as fast as `base`, in the rounds that have both."""
        return compare(self.values.get(series, {}), self.values.get(base, {}), self.kind.speed)

    def best(self, series: Sequence[str] = OTHERS) -> str | None:
        """Which of these is the fastest: the largest median speed over off."""
        speeds = {name: self.speed(name, BASE) for name in series}
        return max((name for name in series if speeds[name]),
                   key=lambda name: speeds[name].median, default=None)

    def failed(self, series: Sequence[str]) -> str:
        """Which of them failed, and "" if none of them did."""
        failures = {name: self.failures[name] for name in series if self.failures.get(name)}
        if any(reason.startswith(NOT_SUPPORTED) for reasons in failures.values()
               for reason in reasons):
            return NOT_SUPPORTED
        return f"{', '.join(failures)} failed" if failures else ""


def cells(measurements: Sequence[dict[str, Any]]) -> Iterator[Cell]:
    """As they were first measured; the series of each with the limit and off first."""
    by_cell: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for job in measurements:
        by_cell.setdefault((job["step"], job["ranks"]), []).append(job)
    for (step, ranks), of_cell in by_cell.items():
        kind = KINDS[step]
        names = sorted(dict.fromkeys(job["series"] for job in of_cell), key=limit_and_base_first)
        rounds = [job["rounds"] for job in of_cell if job["series"] == TOPO and "failed" not in job]
        yield Cell(
            kind, ranks, {name: by_round(of_cell, name, itemgetter(kind.key)) for name in names},
            {name: [job["failed"] for job in of_cell if job["series"] == name and "failed" in job]
             for name in names}, max(rounds, default=None))


def judge(target: Target, cell: Cell) -> Verdict:
    needed = (TOPO, *target.over)
    absent = [name for name in needed if not cell.values.get(name)]
    return verdict(target, _value(target, cell), cell.failed(needed), absent)


def _value(target: Target, cell: Cell) -> Spread | None:
    of_topo = cell.values.get(TOPO, {})
    if target.of == ROUNDS:
        return None if cell.rounds is None else Spread.of([cell.rounds])
    if target.of == SPEED:
        best = cell.best(target.over) if len(target.over) > 1 else target.over[0]
        return best and cell.speed(TOPO, best)
    if target.over:
        return compare(of_topo, cell.values.get(target.over[0], {}), ratio)
    return Spread.of(list(of_topo.values())) if of_topo else None


def verdicts(cell: Cell) -> list[Verdict]:
    return [judge(target, cell) for target in TARGETS
            if target.applies(cell.kind.name, cell.ranks)]


def summary(measurements: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The table of targets for machines: part of the JSON file."""
    return [{"step": cell.kind.name, "ranks": cell.ranks, "target": str(verdict.target),
             "value": verdict.value and asdict(verdict.value), "met": verdict.met,
             "why": verdict.why}
            for cell in cells(measurements) for verdict in verdicts(cell)]
