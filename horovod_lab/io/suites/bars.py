"""Medians of several series as bars, in a group for each number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horovod_lab.io.suites.cell import Cell


class Bar(NamedTuple):
    """How a series looks."""

    series: str
    label: str
    colour: str
    hatch: Optional[str]


class Panel(NamedTuple):
    """What of the series is drawn: `key` of a measurement, times `factor`."""

    key: str
    label: str
    factor: float = 1


def figure(cells: Sequence[Cell], bars: Sequence[Bar], panels: Sequence[Panel],
           size: tuple[float, float], columns: int) -> Figure:
    """Panels above each other, and a legend of so many columns below, of the series that have
    values. Lines reach from the smallest to the largest job."""
    bars = [bar for bar in bars if any(cell.values(bar.series, panels[0].key) for cell in cells)]
    chart = Figure(figsize=size, layout="constrained")
    axes = chart.subplots(len(panels), 1, sharex=True)
    for axis, panel in zip(axes, panels):
        _draw(axis, cells, bars, panel)
    axes[-1].set_xticks(range(len(cells)), [f"{cell.ranks} ranks" for cell in cells])
    handles, labels = axes[0].get_legend_handles_labels()
    chart.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9,
                 frameon=False)
    return chart


def _draw(axis: Axes, cells: Sequence[Cell], bars: Sequence[Bar], panel: Panel) -> None:
    width = 0.85 / len(bars)
    for index, bar in enumerate(bars):
        spreads = [cell.spread(bar.series, panel.key) for cell in cells]
        places = np.arange(len(cells)) + width * (index - (len(bars) - 1) / 2)
        points = [(place, spread) for place, spread in zip(places, spreads) if spread]
        ends = [[spread.median - spread.low for _, spread in points],
                [spread.high - spread.median for _, spread in points]]
        axis.bar([place for place, _ in points],
                 [spread.median * panel.factor for _, spread in points], width * 0.9,
                 yerr=np.array(ends) * panel.factor, color=bar.colour, hatch=bar.hatch,
                 edgecolor="white", capsize=2, label=bar.label)
    axis.set_ylabel(panel.label)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
