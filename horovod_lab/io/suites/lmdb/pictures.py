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
    found = list(LadderCell.each(document))
    judged = list(verdicts(document))
    reached = f"{sum(one.met is True for _, one in judged)} of {len(judged)} targets met"
    grids = [grid for cell in found for grid in (_asked(cell), _took(cell))]
    if targets:
        grids.append(_targets(judged, reached))
    testbed = document["settings"]["stand"]
    name = "io-lmdb" if testbed == WarmCache.name else f"io-lmdb-{testbed}"
    drawn = any(cell.values(name, SPEED) for cell in found for name in cell.series)
    return Section(TITLE, f"Reading LMDB in Caffe's order, strategy by strategy: {reached}.", grids,
                   [_picture(found, name)] if drawn else [])


def _asked(cell: LadderCell) -> Grid:
    """What the strategies ask for, and what reaches the storage, where that can be counted."""
    rows = []
    for name in cell.series:
        if not cell.values(name, SPEED):
            rows.append((RUNGS[name].label, "failed", *[""] * 6))
            continue
        own = RUNGS[name].section
        rows.append((
            RUNGS[name].label, _plain(cell, name, REQUESTS) if own else "",
            _plain(cell, name, "bytes", MIB) if own else "",
            _plain(cell, name, SEEKING, MIB, ".2f") if own else "",
            _plain(cell, name, INVERSIONS) if own else "",
            *(_stored(cell, name, key, scale) for key, scale in
              ((REQUESTS, 1), ("bytes", MIB), (INVERSIONS, 1)))))
    return Grid(f"{TITLE}: {cell.ranks} ranks, what is asked for",
                ("strategy", "requests", "MiB", "of seeking, MiB", "inversions",
                 "at the storage: requests", "MiB", "inversions"), rows,
                "Of all ranks. A request is a call of pread, or the first look of a process at a "
                "page of its mapping. Medians.")


def _took(cell: LadderCell) -> Grid:
    rows = []
    for name in cell.series:
        failed = len(cell.failures(name))
        rows.append((RUNGS[name].label, *(
            in_two_lines(cell.spread(name, key)) for key in
            (SPEED, "cpu_seconds", "voluntary_switches", "involuntary_switches", "open_seconds",
             "read_seconds", "skew_seconds")), f"{failed} failed" if failed else ""))
    return Grid(f"{TITLE}: {cell.ranks} ranks, what it takes",
                ("strategy", "samples/s", "CPU s", "voluntary switches", "involuntary switches",
                 "open, s", "read, s", "skew, s", ""), rows,
                "CPU time and context switches of all ranks; seconds are of a rank, on average; "
                "skew: it waits for the slowest. Medians, smallest to largest job.")


def _plain(cell: LadderCell, name: str, key: str, scale: int = 1, form: str = ".0f") -> str:
    return f"{cell.spread(name, key).median / scale:{form if scale > 1 else '.0f'}}"


def _stored(cell: LadderCell, name: str, key: str, scale: int) -> str:
    counted = [one["stand"][key] for one in cell.measurements
               if one["series"] == name and "failed" not in one and one["stand"][key] is not None]
    return f"{Spread.of(counted).median / scale:.0f}" if counted else ""


def _targets(judged: Sequence[tuple], reached: str) -> Grid:
    rows = [(RUNGS[one.target.series].label, str(ranks), one.target.what, str(one.target),
             _few(one.value), one.words()) for ranks, one in judged]
    return Grid(f"{TITLE}: {reached}", ("of", "ranks", "what", "target", "value", "met"), rows,
                "Requests and inversions are those that reach the storage, where it counts them. "
                "Medians, smallest to largest.")


def _few(spread: Spread | None) -> str:
    return "" if spread is None else number(spread.median) if spread.median else "0"


def _picture(found: Sequence[LadderCell], name: str) -> Picture:
    shown = [Bar(name, rung.label, COLOURS[index % len(COLOURS)],
                 None if rung.section else "//")
             for index, (name, rung) in enumerate(RUNGS.items())]
    panels = (Panel(SPEED, "samples/s of all ranks"),
              Panel(REQUESTS, "requests (logarithmic)"),
              Panel(SEEKING, "MiB of seeking", 1 / MIB))
    drawn = figure(found, shown, panels, (10, 10), 4)
    drawn.axes[1].set_yscale("log")
    drawn.axes[1].set_ylim(bottom=1)
    return Picture(name, TITLE, "Reading LMDB in Caffe's order with LMDBIO's strategies: "
                   "speed, requests and bytes of seeking, as the strategies count them. Hatched: "
                   "this project's reader, which does not. Bars are medians, lines reach from the "
                   "smallest to the largest job.", drawn)
