"""The tables and the picture of the suite nodes, from its JSON alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from horovod_lab.bench.nodes.results import Cell, cells, verdicts
from horovod_lab.bench.nodes.rows import OFF_GLOO, OTHERS, TOPO_BF16, TOPO_GLOO, WAYS
from horovod_lab.measuring.comparison import Spread
from horovod_lab.measuring.present import Grid, Picture, Section
from horovod_lab.measuring.verdict import in_two_lines
from horovod_lab.style import mode_colour, series_colour

TITLE = "Between nodes"
COLOURS = {OFF_GLOO: mode_colour("off"), TOPO_GLOO: mode_colour("nbcs"),
           TOPO_BF16: mode_colour("topo+scp")}


def section(document: dict[str, Any]) -> Section:
    measured_cells = list(cells(document["measurements"]))
    answers = [verdict.met for cell in measured_cells for verdict in verdicts(cell)]
    summary = f"{sum(is_met is True for is_met in answers)} of {len(answers)} targets met"
    pictured = [cell for cell in measured_cells
                if cell.best(OTHERS) and cell.workload.name != "idle"]
    return Section(TITLE, f"Topo and off between virtual hosts on one machine: {summary}.",
                   [_results_grid(measured_cells), _targets_grid(measured_cells, summary)],
                   [_picture(pictured)] if pictured else [])


def _results_grid(cells: Sequence[Cell]) -> Grid:
    names = [name for name in WAYS if any(name in cell.values for cell in cells)]
    lines = [(f"{cell.workload.label}, {cell.workload.unit}", str(cell.layout),
              *(_value(cell, name) for name in names)) for cell in cells]
    return Grid(f"{TITLE}: measured", ("measured", "layout", *names), lines,
                "Medians, smallest to largest job. Under MPI where nothing else is said.")


def _value(cell: Cell, series: str) -> str:
    values, failed = cell.values.get(series, {}), cell.failures.get(series, 0)
    text = in_two_lines(Spread.of(list(values.values()))) if values else ""
    return f"{text}\n{failed} of {failed + len(values)} failed".strip() if failed else text


def _targets_grid(cells: Sequence[Cell], summary: str) -> Grid:
    lines = []
    for cell in cells:
        first = cell.workload.label, str(cell.layout)
        for verdict in verdicts(cell):
            form = "" if not verdict.target.over else ".2f"
            lines.append((*first, verdict.target.series, str(verdict.target),
                          in_two_lines(verdict.value, form), verdict.words()))
            first = "", ""
    return Grid(f"{TITLE}: {summary}",
                ("measured", "layout", "of", "target", "value", "met"), lines,
                f"Best: the faster of {' and '.join(OTHERS)}. Alone: without communication. Ideal: "
                "the longer of computing without communication and sending a step's bytes. Medians "
                "of the pairs of a round, smallest to largest.")


def _picture(cells: Sequence[Cell]) -> Picture:
    """A line for each cell: the speed of each way."""
    figure = Figure(figsize=(8, 1.8 + 0.6 * len(cells)), layout="constrained")
    axis = figure.subplots()
    axis.axvline(1, color="black", linewidth=0.8)
    names = [name for name in WAYS if any(name in cell.values for cell in cells)]
    for index, name in enumerate(names):
        speeds = [(place, speed) for place, cell in enumerate(cells)
                  if (speed := cell.speed(name, cell.best(OTHERS)))]
        if not speeds:
            continue
        shift = 0.12 * (index - (len(names) - 1) / 2)
        medians = [speed.median for _, speed in speeds]
        axis.errorbar(medians, [place + shift for place, _ in speeds],
                      xerr=[[speed.median - speed.low for _, speed in speeds],
                            [speed.high - speed.median for _, speed in speeds]],
                      fmt="o", markersize=4.5, capsize=2, elinewidth=1, label=name,
                      color=COLOURS.get(name) or series_colour(name))
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter("{x:g}")
    axis.set_xlabel(f"speed, the faster of {' and '.join(OTHERS)} = 1")
    axis.set_yticks(range(len(cells)), [f"{cell.workload.label}\n{cell.layout}" for cell in cells],
                    fontsize=9)
    axis.set_ylim(len(cells) - 0.5, -0.5)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return Picture("nodes", TITLE, "Speed between virtual hosts on one machine. Dots are medians "
                   "of the pairs of a round, bars reach from the smallest to the largest.", figure)
