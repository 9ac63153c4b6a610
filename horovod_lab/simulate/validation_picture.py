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
    validation = document["validation"]
    points = validation["points"]
    several = len({point["cell"] for point in points}) > 1
    places = list(dict.fromkeys(_place(point, several) for point in points))
    figure = Figure(figsize=(max(7.0, 1.3 * len(places)), 4.8), layout="constrained")
    axis = figure.subplots()
    series = list(dict.fromkeys(point["series"] for point in points))
    axis.axhspan(1 - validation["band"], 1 + validation["band"], color="#EDEDED", zorder=0)
    axis.axhline(1, color=GREY, linewidth=1)
    for index, name in enumerate(series):
        of_series = [point for point in points if point["series"] == name]
        colour = "black" if name == LIMIT else mode_colour(name.split(",")[0])
        for point in of_series:
            place = (places.index(_place(point, several))
                     + 0.7 * ((index + 0.5) / len(series) - 0.5))
            ratio = point["predicted"] / point["measured"]
            axis.plot([place] * 2,
                      [point["predicted"] / point["high"], point["predicted"] / point["low"]],
                      color=colour, linewidth=1.5)
            axis.plot(place, ratio, MARKERS[index % len(MARKERS)], color=colour, markersize=8,
                      markerfacecolor="white" if point["calibrated"] else colour)
        axis.plot([], [], MARKERS[index % len(MARKERS)], color=colour, label=name)
    axis.set_xticks(range(len(places)), places, fontsize=8 if several else 10)
    worst = max((abs(point["error"]) for point in points), default=0)
    axis.set_ylim(1 - max(0.3, worst + 0.1), 1 + max(0.3, worst + 0.1))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2f}"))
    axis.set_ylabel("predicted over measured")
    axis.legend(frameon=False, fontsize=10, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    axis.spines[["top", "right"]].set_visible(False)
    return Picture("simulated-validation", "Prediction against measurement",
                   f"Band: 15 %. Hollow: calibrated ({validation['calibrated_on']}); filled: "
                   "predicted. "
                   "Lines: smallest to largest measurement.", figure)


def _place(point: dict[str, Any], several: bool) -> str:
    """Where on the axis: the number of ranks, and of several cells which one."""
    ranks = f"{point['ranks']} ranks"
    return "\n".join([*point["cell"].split(", "), ranks]) if several else ranks
