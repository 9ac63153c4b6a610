"""The tables and the picture of the suite records, from its JSON alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from graph_analysis.palette import COLOURS
from horovod_opt.io.bench.peers import PEERS
from horovod_opt.io.bench.suites.records.results import Cell, cells, verdicts
from horovod_opt.io.bench.suites.records.targets import MEMORY, SPEED
from horovod_opt.measuring.comparison import Spread
from horovod_opt.measuring.present import Grid, Picture, Section
from horovod_opt.measuring.verdict import in_two_lines

TITLE = "Input pipelines, small records"
MIB = 1 << 20


def section(document: dict[str, Any], targets: bool) -> Section:
    found = list(cells(document))
    judged = list(verdicts(document))
    reached = f"{sum(one.met is True for _, one in judged)} of {len(judged)} targets met"
    grids = [_measured(cell, document["not_measured"]) for cell in found]
    if targets:
        grids.append(_targets(judged, reached))
    drawn = [cell for cell in found if cell.base()]
    return Section(TITLE, f"Records out of the page cache through several pipelines: {reached}.",
                   grids, [_picture(drawn)] if drawn else [])


def _measured(cell: Cell, absent: dict[str, str]) -> Grid:
    base = cell.base()
    rows = []
    for name in cell.series:
        failed = cell.failures.get(name, ())
        rows.append((PEERS[name].label, *(_row(cell, name, base) if cell.values(name, SPEED)
                                          else ("failed",) + ("",) * 7),
                     f"{len(failed)} failed" if failed else ""))
    rows += [(PEERS[name].label, *("",) * 8, f"not measured: {reason}")
             for name, reason in absent.items()]
    return Grid(f"{TITLE}: {cell.ranks} ranks",
                ("pipeline", "samples/s", f"x {base}" if base else "", "CPU s / million",
                 "PSS, MiB", "of it files", "processes", "RL, %", "missing, repeated", ""), rows,
                "Samples of all ranks. Medians, smallest to largest job. RL: 100 % for a complete "
                "shuffle.")


def _row(cell: Cell, name: str, base: str | None) -> tuple[str, ...]:
    lost = (_worst(cell, name, key) for key in ("missing", "repeated"))
    return (in_two_lines(cell.spread(name, SPEED)),
            in_two_lines(cell.ratio(name, base), ".2f") if base else "",
            in_two_lines(cell.spread(name, "cpu_seconds_per_million")),
            in_two_lines(_scaled(cell.spread(name, MEMORY), 1 / MIB)),
            f"{cell.spread(name, 'pss_file_bytes').median / MIB:.0f}",
            f"{cell.spread(name, 'processes').median:.0f}",
            f"{100 * cell.spread(name, 'rl').median:.0f}", ", ".join(lost))


def _scaled(spread: Spread, factor: float) -> Spread:
    return Spread(spread.median * factor, spread.low * factor, spread.high * factor, spread.n)


def _worst(cell: Cell, name: str, key: str) -> str:
    return f"{cell.spread(name, key).high:.0f}"


def _targets(judged: Sequence[tuple], reached: str) -> Grid:
    rows = [(PEERS[one.target.series].label, str(ranks), one.target.what, str(one.target),
             in_two_lines(one.value, ".2f"), one.words()) for ranks, one in judged]
    return Grid(f"{TITLE}: {reached}", ("of", "ranks", "what", "target", "value", "met"), rows,
                "Medians of the pairs of a round, smallest to largest.")


def _picture(found: Sequence[Cell]) -> Picture:
    """A group of bars for each number of ranks, a bar for each pipeline."""
    names = [name for name in PEERS if any(cell.values(name, SPEED) for cell in found)]
    figure = Figure(figsize=(11, 8), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    width = 0.85 / len(names)
    for axis, key, label, factor in ((axes[0], SPEED, "samples/s of all ranks (logarithmic)", 1),
                                     (axes[1], MEMORY, "PSS of all processes, MiB", 1 / MIB)):
        for index, name in enumerate(names):
            number = list(PEERS).index(name)  # of its colour, whichever others are there
            spreads = [cell.spread(name, key) for cell in found]
            places = np.arange(len(found)) + width * (index - (len(names) - 1) / 2)
            shown = [(place, _scaled(one, factor)) for place, one in zip(places, spreads) if one]
            medians = [one.median for _, one in shown]
            axis.bar([place for place, _ in shown], medians, width * 0.9,
                     yerr=[[one.median - one.low for _, one in shown],
                           [one.high - one.median for _, one in shown]],
                     color=COLOURS[number % len(COLOURS)],
                     hatch="//" if number >= len(COLOURS) else None,
                     edgecolor="white", capsize=2, label=PEERS[name].label)
        axis.set_ylabel(label)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", alpha=0.3)
        axis.set_axisbelow(True)
    axes[0].set_yscale("log")
    axes[0].set_ylim(bottom=1000)
    axes[0].yaxis.set_major_formatter("{x:,.0f}")
    axes[1].set_xticks(range(len(found)), [f"{cell.ranks} ranks" for cell in found])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=9, frameon=False)
    return Picture("io-records", TITLE, "Speed, on a logarithmic scale, and memory of input "
                   "pipelines. Bars are medians, lines reach from the smallest to the largest job.",
                   figure)

