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
    found = list(cells(document["measurements"]))
    met = [one.met for cell in found for one in verdicts(cell)]
    reached = f"{sum(one is True for one in met)} of {len(met)} targets met"
    drawn = [cell for cell in found if cell.best(OTHERS) and cell.workload.name != "idle"]
    return Section(TITLE, f"Topo and off between virtual hosts on one machine: {reached}.",
                   [_measured(found), _targets(found, reached)], [_picture(drawn)] if drawn else [])


def _measured(found: Sequence[Cell]) -> Grid:
    names = [name for name in WAYS if any(name in cell.values for cell in found)]
    lines = [(f"{cell.workload.label}, {cell.workload.unit}", str(cell.layout),
              *(_value(cell, name) for name in names)) for cell in found]
    return Grid(f"{TITLE}: measured", ("measured", "layout", *names), lines,
                "Medians, smallest to largest job. Under MPI where nothing else is said.")


def _value(cell: Cell, series: str) -> str:
    values, failed = cell.values.get(series, {}), cell.failures.get(series, 0)
    shown = in_two_lines(Spread.of(list(values.values()))) if values else ""
    return f"{shown}\n{failed} of {failed + len(values)} failed".strip() if failed else shown


def _targets(found: Sequence[Cell], reached: str) -> Grid:
    lines = []
    for cell in found:
        first = cell.workload.label, str(cell.layout)
        for one in verdicts(cell):
            form = "" if not one.target.over else ".2f"
            lines.append((*first, one.target.series, str(one.target),
                          in_two_lines(one.value, form), one.words()))
            first = "", ""
    return Grid(f"{TITLE}: {reached}",
                ("measured", "layout", "of", "target", "value", "met"), lines,
                f"Best: the faster of {' and '.join(OTHERS)}. Alone: without communication. Ideal: "
                "the longer of computing without communication and sending a step's bytes. Medians "
                "of the pairs of a round, smallest to largest.")


def _picture(found: Sequence[Cell]) -> Picture:
    """A line for each cell: the speed of each way."""
    figure = Figure(figsize=(8, 1.8 + 0.6 * len(found)), layout="constrained")
    axis = figure.subplots()
    axis.axvline(1, color="black", linewidth=0.8)
    names = [name for name in WAYS if any(name in cell.values for cell in found)]
    for index, name in enumerate(names):
        speeds = [(place, speed) for place, cell in enumerate(found)
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
    axis.set_yticks(range(len(found)), [f"{cell.workload.label}\n{cell.layout}" for cell in found],
                    fontsize=9)
    axis.set_ylim(len(found) - 0.5, -0.5)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return Picture("nodes", TITLE, "Speed between virtual hosts on one machine. Dots are medians "
                   "of the pairs of a round, bars reach from the smallest to the largest.", figure)
