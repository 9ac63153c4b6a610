"""The picture of predictions beside measurements, from the simulation's JSON alone."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from graph_analysis.palette import GREY
from horovod_lab.bench.worker_job import LIMIT
from horovod_lab.measuring.present import Picture
from horovod_lab.style import MARKERS, mode_colour


def validation(document: dict[str, Any]) -> Picture:
    found = document["validation"]
    points = found["points"]
    several = len({one["cell"] for one in points}) > 1
    places = list(dict.fromkeys(_place(one, several) for one in points))
    figure = Figure(figsize=(max(7.0, 1.3 * len(places)), 4.8), layout="constrained")
    axis = figure.subplots()
    series = list(dict.fromkeys(one["series"] for one in points))
    axis.axhspan(1 - found["band"], 1 + found["band"], color="#EDEDED", zorder=0)
    axis.axhline(1, color=GREY, linewidth=1)
    for index, name in enumerate(series):
        mine = [one for one in points if one["series"] == name]
        colour = "black" if name == LIMIT else mode_colour(name.split(",")[0])
        for one in mine:
            place = (places.index(_place(one, several))
                     + 0.7 * ((index + 0.5) / len(series) - 0.5))
            ratio = one["predicted"] / one["measured"]
            axis.plot([place] * 2, [one["predicted"] / one["high"], one["predicted"] / one["low"]],
                      color=colour, linewidth=1.5)
            axis.plot(place, ratio, MARKERS[index % len(MARKERS)], color=colour, markersize=8,
                      markerfacecolor="white" if one["calibrated"] else colour)
        axis.plot([], [], MARKERS[index % len(MARKERS)], color=colour, label=name)
    axis.set_xticks(range(len(places)), places, fontsize=8 if several else 10)
    worst = max((abs(one["error"]) for one in points), default=0)
    axis.set_ylim(1 - max(0.3, worst + 0.1), 1 + max(0.3, worst + 0.1))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2f}"))
    axis.set_ylabel("predicted over measured")
    axis.legend(frameon=False, fontsize=10, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    axis.spines[["top", "right"]].set_visible(False)
    return Picture("simulated-validation", "Prediction against measurement",
                   f"Band: 15 %. Hollow: calibrated ({found['calibrated_on']}); filled: predicted. "
                   "Lines: smallest to largest measurement.", figure)


def _place(point: dict[str, Any], several: bool) -> str:
    """Where on the axis: the number of ranks, and of several cells which one."""
    ranks = f"{point['ranks']} ranks"
    return "\n".join([*point["cell"].split(", "), ranks]) if several else ranks
