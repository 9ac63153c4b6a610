"""The table and the picture of the suite overhead, from its JSON alone."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from horovod_lab.bench.overhead.results import Metric, Row, grid, rows
from horovod_lab.bench.worker_job import LIMIT
from horovod_lab.measuring.present import Picture, Section, number
from horovod_lab.style import series_colour


def section(document: dict[str, Any]) -> Section:
    measurements = document["measurements"]
    chart = picture(measurements, describe_machine(document))
    return Section(
        "What the background thread costs",
        "Small workloads that show the thread alone: idle, a chain of dependent allreduces, many "
        "small ones, and training.",
        [grid(measurements)], [chart] if chart else [])


def describe_machine(document: dict[str, Any]) -> str:
    """The machine and the MPI, in a line."""
    about = document["machine"]
    libraries = dict.fromkeys(filter(None, (m.get("mpi") for m in document["measurements"])))
    return (f"{about['cpu']}, {about['cores']} cores; {', '.join(libraries) or 'no MPI'}; "
            f"bars: median, whiskers: smallest and largest, dots: single jobs")


def picture(measurements: Sequence[dict], machine: str) -> Picture | None:
    """A panel for each plotted metric and number of ranks: bars are medians, whiskers min to max,
    dots single rounds, the dashed line the limit without communication.

    None if there is nothing to plot."""
    panels: dict[tuple[Metric, int], list[Row]] = {}
    for row in rows(measurements):
        if row.metric.plotted and row.spread:
            panels.setdefault((row.metric, row.ranks), []).append(row)
    if not panels:
        return None
    names = dict.fromkeys(row.series for panel in panels.values() for row in panel)

    columns = 2 if len(panels) == 4 else min(3, len(panels))
    lines = -(-len(panels) // columns)
    width = max(4.6, 0.75 * len(names))  # names of series stand side by side
    figure = Figure(figsize=(width * columns, 3.9 * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False)
    for axis, ((metric, ranks), panel) in zip(axes.flat, panels.items()):
        _panel(axis, metric, ranks, panel)
    for axis in axes.flat[len(panels):]:
        axis.set_axis_off()
    figure.suptitle("What Horovod's background thread costs", fontsize=14)
    figure.supxlabel(textwrap.fill(machine, 72 * columns), fontsize=8, color="#555555")
    return Picture(
        "overhead", "What Horovod's background thread costs",
        "Bars are medians, whiskers reach from the smallest to the largest job, dots are single "
        "jobs, the dashed line is the limit without communication.", figure)


def _panel(axis, metric: Metric, ranks: int, panel: Sequence[Row]) -> None:
    bars = [row for row in panel if row.series != LIMIT]
    medians = [row.spread.median for row in bars]
    whiskers = [[row.spread.median - row.spread.low for row in bars],
                [row.spread.high - row.spread.median for row in bars]]
    axis.bar(range(len(bars)), medians, width=0.7,
             color=[series_colour(row.series) for row in bars])
    axis.errorbar(range(len(bars)), medians, yerr=whiskers, fmt="none", ecolor="black",
                  elinewidth=1.2, capsize=5)
    for position, row in enumerate(bars):
        axis.plot([position] * len(row.values), row.values, "o", markersize=3.5,
                  markerfacecolor="white", markeredgecolor="black", markeredgewidth=0.7)
    top = max([row.spread.high for row in panel])
    for position, row in enumerate(bars):
        axis.text(position, row.spread.high + 0.025 * top, number(row.spread.median),
                  ha="center", va="bottom", fontsize=9,
                  bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5})
    for row in panel:
        if row.series == LIMIT:
            axis.axhline(row.spread.median, color="black", linestyle="--", linewidth=1.2,
                         label=f"{LIMIT}: {number(row.spread.median)}")
            axis.legend(loc="lower center", bbox_to_anchor=(0.5, 0.98), frameon=False, fontsize=9)
    axis.set_ylim(0, 1.18 * top if top else 1)
    axis.set_xticks(range(len(bars)), [row.series.replace(" ", "\n") for row in bars],
                    fontsize=9)
    axis.set_ylabel(f"{metric.unit} ({metric.better} is better)")
    axis.set_title(f"{metric.label}, {ranks} ranks", fontsize=11, pad=22)
    axis.spines[["top", "right"]].set_visible(False)
