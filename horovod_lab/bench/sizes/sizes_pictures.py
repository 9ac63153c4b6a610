"""The curves, the table and the picture of the suite sizes, from its JSON alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from horovod_lab.bench.worker_job import LIMIT, limit_and_base_first
from horovod_lab.measuring.comparison import Spread, by_round
from horovod_lab.measuring.present import Grid, Picture, Section
from horovod_lab.measuring.verdict import in_two_lines
from horovod_lab.style import MARKERS, series_colour, series_line

TITLE = "One allreduce by its size"


@dataclass(frozen=True)
class Curve:
    """Of a series at a number of ranks: microseconds by the bytes of an allreduce; `failed` jobs
    have none."""

    ranks: int
    series: str
    microseconds: Mapping[int, Spread]
    failed: int


def curves(measurements: Sequence[dict[str, Any]]) -> Iterator[Curve]:
    """By ranks; in each the limit and off first, the others as they were first measured."""
    for ranks in dict.fromkeys(job["ranks"] for job in measurements):
        of_ranks = [job for job in measurements if job["ranks"] == ranks]
        names = dict.fromkeys(job["series"] for job in of_ranks)
        for name in sorted(names, key=limit_and_base_first):
            jobs = by_round(of_ranks, name, lambda job: job["microseconds"]).values()
            sizes = sorted({int(size) for job in jobs for size in job})
            yield Curve(
                ranks, name,
                {size: Spread.of([job[str(size)] for job in jobs if str(size) in job])
                 for size in sizes},
                sum("failed" in job for job in of_ranks if job["series"] == name))


def section(document: dict[str, Any]) -> Section:
    all_curves = list(curves(document["measurements"]))
    complete = [curve for curve in all_curves if curve.microseconds]
    return Section(TITLE, _summary(complete), [_grid(all_curves)],
                   [_picture(complete)] if complete else [])


def _summary(curves: Sequence[Curve]) -> str:
    """Which series is the fastest at both ends."""
    reducing = [curve for curve in curves if curve.series != LIMIT]
    if not reducing:
        return "No allreduce was measured."
    ends = []
    for end in (min, max):
        size = end(size for curve in reducing for size in curve.microseconds)
        best = min((curve for curve in reducing if size in curve.microseconds),
                   key=lambda curve: curve.microseconds[size].median)
        ends.append(f"{bytes_text(size)} take {best.microseconds[size].median:,.0f} us at best "
                    f"({best.series}, {best.ranks} ranks)")
    return f"{'; '.join(ends)}."


def bytes_text(size: int) -> str:
    for unit, unit_bytes in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size % unit_bytes == 0 and size < 1000 * unit_bytes:
            return f"{size // unit_bytes} {unit}"
    return f"{size / 1e6:g} MB" if size >= 1_000_000 else f"{size} B"


def _sizes(curves: Sequence[Curve]) -> list[int]:
    return sorted({size for curve in curves for size in curve.microseconds})


def _grid(curves: Sequence[Curve]) -> Grid:
    sizes = _sizes(curves)
    return Grid(f"{TITLE}, us", ("ranks", "series", *map(bytes_text, sizes)), [
        (str(curve.ranks), curve.series,
         *(in_two_lines(curve.microseconds.get(size)) for size in sizes)) if curve.microseconds
        else (str(curve.ranks), curve.series, "failed", *("",) * (len(sizes) - 1))
        for curve in curves],
        "Medians, smallest to largest job, of the slowest rank. No communication: the function "
        "without an allreduce, which all others call as well.")


def _picture(curves: Sequence[Curve]) -> Picture:
    """A panel for each number of ranks."""
    names = list(dict.fromkeys(curve.series for curve in curves))
    ranks = list(dict.fromkeys(curve.ranks for curve in curves))
    figure = Figure(figsize=(1.0 + 5.0 * len(ranks), 5.6), layout="constrained")
    axes = figure.subplots(1, len(ranks), squeeze=False, sharey=True)[0]
    for axis, count in zip(axes, ranks):
        for curve in (curve for curve in curves if curve.ranks == count):
            spreads = curve.microseconds.values()
            medians = [spread.median for spread in spreads]
            axis.errorbar(
                list(curve.microseconds), medians, label=curve.series,
                yerr=[[spread.median - spread.low for spread in spreads],
                      [spread.high - spread.median for spread in spreads]],
                color=series_colour(curve.series), linestyle=series_line(curve.series),
                marker=MARKERS[names.index(curve.series) % len(MARKERS)], markersize=5,
                linewidth=1.6, capsize=3)
        axis.set(xscale="log", yscale="log", xlabel="bytes")
        axis.set_title(f"{count} ranks", fontsize=11)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("us (lower is better)")
    handles = {label: handle for axis in axes
               for handle, label in zip(*axis.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4,
                  fontsize=9, frameon=False)
    return Picture(
        "sizes", TITLE,
        "The time of one allreduce alone in a TensorFlow function, by its bytes. Marks are "
        "medians, bars reach from the smallest to the largest job.", figure)
