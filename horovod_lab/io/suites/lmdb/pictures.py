"""The tables and the picture of the suite lmdb, from its JSON alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_analysis.palette import COLOURS
from horovod_lab.io.strategies import RUNGS
from horovod_lab.io.suites.bars import Bar, Panel, figure
from horovod_lab.io.suites.lmdb.results import (
    INVERSIONS,
    REQUESTS,
    SEEKING,
    SPEED,
    LadderCell,
    verdicts,
)
from horovod_lab.io.testbeds.testbed import WarmCache
from horovod_lab.measuring.comparison import Spread
from horovod_lab.measuring.present import Grid, Picture, Section, number
from horovod_lab.measuring.verdict import in_two_lines

TITLE = "LMDBIO's ladder"
MIB = 1 << 20


def section(document: dict[str, Any], targets: bool) -> Section:
    cells = list(LadderCell.by_ranks(document))
    judgements = list(verdicts(document))
    met = sum(verdict.met is True for _, verdict in judgements)
    score = f"{met} of {len(judgements)} targets met"
    grids = [grid for cell in cells for grid in (_request_grid(cell), _cost_grid(cell))]
    if targets:
        grids.append(_target_grid(judgements, score))
    testbed = document["settings"]["stand"]
    name = "io-lmdb" if testbed == WarmCache.name else f"io-lmdb-{testbed}"
    has_values = any(cell.values(name, SPEED) for cell in cells for name in cell.series)
    return Section(TITLE, f"Reading LMDB in Caffe's order, strategy by strategy: {score}.", grids,
                   [_picture(cells, name)] if has_values else [])


def _request_grid(cell: LadderCell) -> Grid:
    """What the strategies ask for, and what reaches the storage, where that can be counted."""
    rows = []
    for name in cell.series:
        if not cell.values(name, SPEED):
            rows.append((RUNGS[name].label, "failed", *[""] * 6))
            continue
        has_counts = RUNGS[name].section
        rows.append((
            RUNGS[name].label, _count(cell, name, REQUESTS) if has_counts else "",
            _count(cell, name, "bytes", MIB) if has_counts else "",
            _count(cell, name, SEEKING, MIB, ".2f") if has_counts else "",
            _count(cell, name, INVERSIONS) if has_counts else "",
            *(_storage_count(cell, name, key, scale) for key, scale in
              ((REQUESTS, 1), ("bytes", MIB), (INVERSIONS, 1)))))
    return Grid(f"{TITLE}: {cell.ranks} ranks, what is asked for",
                ("strategy", "requests", "MiB", "of seeking, MiB", "inversions",
                 "at the storage: requests", "MiB", "inversions"), rows,
                "Of all ranks. A request is a call of pread, or the first look of a process at a "
                "page of its mapping. Medians.")


def _cost_grid(cell: LadderCell) -> Grid:
    rows = []
    for name in cell.series:
        failures = len(cell.failures(name))
        rows.append((RUNGS[name].label, *(
            in_two_lines(cell.spread(name, key)) for key in
            (SPEED, "cpu_seconds", "voluntary_switches", "involuntary_switches", "open_seconds",
             "read_seconds", "skew_seconds")), f"{failures} failed" if failures else ""))
    return Grid(f"{TITLE}: {cell.ranks} ranks, what it takes",
                ("strategy", "samples/s", "CPU s", "voluntary switches", "involuntary switches",
                 "open, s", "read, s", "skew, s", ""), rows,
                "CPU time and context switches of all ranks; seconds are of a rank, on average; "
                "skew: it waits for the slowest. Medians, smallest to largest job.")


def _count(cell: LadderCell, name: str, key: str, scale: int = 1, form: str = ".0f") -> str:
    return f"{cell.spread(name, key).median / scale:{form if scale > 1 else '.0f'}}"


def _storage_count(cell: LadderCell, name: str, key: str, scale: int) -> str:
    counts = [measurement["stand"][key] for measurement in cell.measurements
              if measurement["series"] == name and "failed" not in measurement
              and measurement["stand"][key] is not None]
    return f"{Spread.of(counts).median / scale:.0f}" if counts else ""


def _target_grid(judgements: Sequence[tuple], score: str) -> Grid:
    rows = [(RUNGS[verdict.target.series].label, str(ranks), verdict.target.quantity,
             str(verdict.target), _few(verdict.value), verdict.words())
            for ranks, verdict in judgements]
    return Grid(f"{TITLE}: {score}", ("of", "ranks", "what", "target", "value", "met"), rows,
                "Requests and inversions are those that reach the storage, where it counts them. "
                "Medians, smallest to largest.")


def _few(spread: Spread | None) -> str:
    return "" if spread is None else number(spread.median) if spread.median else "0"


def _picture(cells: Sequence[LadderCell], name: str) -> Picture:
    bars = [Bar(name, rung.label, COLOURS[index % len(COLOURS)],
                None if rung.section else "//")
            for index, (name, rung) in enumerate(RUNGS.items())]
    panels = (Panel(SPEED, "samples/s of all ranks"),
              Panel(REQUESTS, "requests (logarithmic)"),
              Panel(SEEKING, "MiB of seeking", 1 / MIB))
    chart = figure(cells, bars, panels, (10, 10), 4)
    chart.axes[1].set_yscale("log")
    chart.axes[1].set_ylim(bottom=1)
    return Picture(name, TITLE, "Reading LMDB in Caffe's order with LMDBIO's strategies: "
                   "speed, requests and bytes of seeking, as the strategies count them. Hatched: "
                   "this project's reader, which does not. Bars are medians, lines reach from the "
                   "smallest to the largest job.", chart)
