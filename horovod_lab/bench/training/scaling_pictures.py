"""A benchmark's tables and pictures, from its JSON alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graph_analysis.palette import BLUE, COLOURS, GREY, VERMILION, YELLOW
from horovod_lab.bench.training.results import PARTS, Row, rows
from horovod_lab.bench.worker_job import BASE, gs_interval
from horovod_lab.measuring.comparison import ConfidenceInterval
from horovod_lab.measuring.present import Grid, Picture, Section, number
from horovod_lab.style import MARKERS, MODE_COLOURS, mode_colour, series_colour, series_line

COLUMNS = 4  # that a page can show

PART_COLOURS = dict(zip(PARTS, (GREY, YELLOW, VERMILION, BLUE)))


def section(document: dict[str, Any]) -> Section:
    """Figures 6.6, 6.7, 6.10 and 6.16 to 6.20 of the source, as measured."""
    scaling = document["settings"]["scaling"]
    whole, parts = _whole_and_in_parts(document)
    pictures = [_scaling(name, group, scaling) for name, group in whole.items()]
    pictures += [_breakdown(name, group) for name, group in parts.items()]
    pictures += [_intervals(name, group) for name, group in whole.items()]
    rows = [row for group in whole.values() for row in group]
    pictures += [_contention(rows)]
    return Section("Training: what the modes bring", _summary(rows), _tables(whole, parts),
                   [picture for picture in pictures if picture])


def tables(document: dict[str, Any]) -> list[Grid]:
    """Those of its section, without drawing anything."""
    return _tables(*_whole_and_in_parts(document))


Groups = dict[str, list[Row]]  # by name, what belongs into one picture


def _tables(whole: Groups, parts: Groups) -> list[Grid]:
    return [*(table(name, group) for name, group in whole.items()),
            *(_parts_table(name, group) for name, group in parts.items())]


def _whole_and_in_parts(document: dict[str, Any]) -> tuple[Groups, Groups]:
    measured_rows = list(rows(document["measurements"]))
    scaling = document["settings"]["scaling"]
    return (_groups([row for row in measured_rows if not row.cell.separate], scaling),
            _groups([row for row in measured_rows if row.breakdown], scaling))


def _groups(rows: Sequence[Row], scaling: str) -> Groups:
    groups: Groups = {}
    for row in rows:
        name = f"{row.cell.framework}, {row.cell.input} input"
        if scaling == "weak":
            name += f", batch {row.cell.batch}"
        groups.setdefault(name, []).append(row)
    return groups


def model_of(row: Row) -> str:
    return f"{row.cell.model}, {row.cell.pixels} pixels"


def _summary(rows: Sequence[Row]) -> str:
    gains = [row for row in rows if row.gain and row.series in MODE_COLOURS]
    if not gains:
        return "No mode was measured beside off."
    best = max(gains, key=lambda row: row.gain.mean)
    return (f"The largest gain over off was {100 * best.gain.mean:.0f} %: {best.series}, "
            f"{best.cell}.")


def _with_interval(interval: ConfidenceInterval | None, scale: float = 1.0, form: str = "") -> str:
    if interval is None:
        return ""
    show = (lambda value: f"{scale * value:{form}}") if form else number
    if interval.low is None:
        return show(interval.mean)
    return f"{show(interval.mean)} ({show(interval.low)} to {show(interval.high)})"


def table(name: str, rows: Sequence[Row]) -> Grid:
    """Images/s with their 95 % confidence interval, and what is made of them."""
    lines, previous = [], ("", "")
    for row in rows:
        heading = model_of(row), str(row.cell.ranks)
        n = row.images_per_second.n if row.images_per_second else 0
        lines.append((
            *(heading if heading != previous else ("", "")), row.series,
            _with_interval(row.images_per_second) or "failed",
            f"{n} of {n + row.failed}" if row.failed else str(n),
            _with_interval(row.gain, 100, "+.1f"), _with_interval(row.efficiency, 100, ".1f"),
            "" if row.background is None else f"{100 * row.background:.1f}",
            "" if row.switches is None else number(row.switches)))
        previous = heading
    return Grid(
        f"Images/s: {name}",
        ("model", "ranks", "series", "images/s", "n", "over off, %", "efficiency, %",
         "thread, % of a core", "switches a step"), lines,
        "Means with 95 % confidence intervals (Student's t, noise pooled over the series of a "
        "model and number of ranks). Gains and efficiencies are of pairs of the same round; "
        "efficiency is against no communication. Thread: Horovod's background "
        "thread. Switches: involuntary ones of a rank.")


def _parts_table(name: str, rows: Sequence[Row]) -> Grid:
    return Grid(
        f"Where a step's time goes, ms: {name}", ("model", "ranks", "series", *PARTS),
        [(model_of(row), str(row.cell.ranks), row.series,
          *(number(1e3 * row.breakdown[part]) for part in PARTS)) for row in rows],
        "Gradients are reduced after the computation, as the source measured it (Chapter 6.2.1). "
        "Waiting: for the last rank's gradients. Means over ranks.")


def _scaling(name: str, rows: Sequence[Row], scaling: str) -> Picture | None:
    """Over the number of ranks: of each model images/s, and below them the gain over off."""
    complete = [row for row in rows if row.images_per_second]
    if not complete:
        return None
    models = list(dict.fromkeys(model_of(row) for row in complete))
    names = list(dict.fromkeys(row.series for row in complete))
    figure, axes = _pairs(len(models))
    for (above, below), model in zip(axes, models):
        ranks = sorted({row.cell.ranks for row in complete if model_of(row) == model})
        for index, series in enumerate(names):
            points = [row for row in complete if (model_of(row), row.series) == (model, series)]
            marker = MARKERS[index % len(MARKERS)]
            aside = _aside(index, len(names), ranks)
            _line(above, points, "images_per_second", 1, marker, series, aside)
            _line(below, points, "gain", 100, marker, series, aside)
        above.set_title(model, fontsize=11)
        above.set_ylim(bottom=0)
        below.axhline(0, color=mode_colour(BASE), linewidth=1)
        below.set_xlabel("ranks")
        below.set_xticks(ranks)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(labels)),
                  fontsize=9, frameon=False)
    figures = {"weak": "Figures 6.16 and 6.20", "strong": "Figure 6.19"}[scaling]
    batch = ("the same batch for each rank" if scaling == "weak"
             else "the same batch for all ranks together")
    return Picture(
        f"bench-{scaling}-scaling-{name}", f"{scaling.capitalize()} scaling: {name}",
        f"Images per second and gain over off, {batch}. Marks are means, bars 95 % confidence "
        f"intervals; those of a number of ranks stand beside it. The source's {figures}.", figure)


def _pairs(count: int) -> tuple[Figure, list[tuple[Axes, Axes]]]:
    """That many pairs of axes, one above the other, in as many lines as they need."""
    lines = -(-count // COLUMNS)
    columns = -(-count // lines)
    figure = Figure(figsize=(max(7.2, 3.6 * columns), 6.4 * lines), layout="constrained")
    axes = figure.subplots(2 * lines, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", alpha=0.3)
    places = [pair for line in range(lines) for pair in zip(*axes[2 * line:2 * line + 2])]
    for above, below in places:
        above.sharex(below)
        above.tick_params(labelbottom=False)
    for above, below in places[::columns]:
        above.set_ylabel("images/s")
        below.set_ylabel("% over off")
    for axis in (axis for pair in places[count:] for axis in pair):
        axis.set_axis_off()
    return figure, places[:count]


def _aside(index: int, series: int, ranks: Sequence[int]) -> float:
    """How far beside the number of ranks the marks of a series stand, lest they hide others."""
    nearest = min((more - less for less, more in zip(ranks, ranks[1:])), default=1)
    return 0.2 * nearest * (index / (series - 1) - 0.5) if series > 1 else 0.0


def _line(axis, rows: Sequence[Row], field: str, scale: float, marker: str, series: str,
          aside: float) -> None:
    points = [(row.cell.ranks, getattr(row, field)) for row in rows]
    points = sorted((ranks, value) for ranks, value in points if value)
    if not points:
        return
    means = [scale * value.mean for _, value in points]
    errors = [0 if value.high is None else scale * (value.high - value.mean)
              for _, value in points]
    axis.errorbar([ranks + aside for ranks, _ in points], means, yerr=errors,
                  color=series_colour(series), marker=marker, markersize=5, linewidth=1.6,
                  capsize=3, label=series, linestyle=series_line(series))


def _intervals(name: str, rows: Sequence[Row]) -> Picture | None:
    """The gain of gs over off by the cycles between two agreements; a line a model and ranks."""
    lines: dict[str, list[tuple[int, ConfidenceInterval]]] = {}
    for row in rows:
        cycles = gs_interval(row.series)
        if cycles and row.gain:
            lines.setdefault(f"{model_of(row)}, {row.cell.ranks} ranks", []).append(
                (cycles, row.gain))
    lines = {label: sorted(points, key=itemgetter(0)) for label, points in lines.items()
             if len(points) > 1}
    if not lines:
        return None
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axis = figure.subplots()
    for (label, points), marker, colour in zip(lines.items(), MARKERS, COLOURS):
        axis.errorbar([cycles for cycles, _ in points], [100 * gain.mean for _, gain in points],
                      yerr=[0 if gain.high is None else 100 * (gain.high - gain.mean)
                            for _, gain in points],
                      marker=marker, color=colour, capsize=3, label=label)
    axis.axhline(0, color=mode_colour(BASE), linewidth=1)
    axis.set_xscale("log")
    ticks = sorted({cycles for points in lines.values() for cycles, _ in points})
    axis.set_xticks(ticks, map(str, ticks))
    axis.minorticks_off()
    axis.set(xlabel="cycles between two agreements (HOROVOD_OPT_GS_INTERVAL)",
             ylabel="gs, % over off")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    return Picture(
        f"bench-gs-interval-{name}", f"How often gs agrees: {name}",
        "Gain of gs over off by the number of cycles between two agreements on the time to sleep. "
        "Marks are means, bars 95 % confidence intervals. The source's Chapter 6.3.1.", figure)


def _breakdown(name: str, rows: Sequence[Row]) -> Picture:
    figure = Figure(figsize=(7.0, 1.5 + 0.4 * len(rows)), layout="constrained")
    axis = figure.subplots()
    starts = [0.0] * len(rows)
    for part in PARTS:
        widths = [1e3 * row.breakdown[part] for row in rows]
        axis.barh(range(len(rows)), widths, 0.7, starts, color=PART_COLOURS[part], label=part)
        starts = [start + width for start, width in zip(starts, widths)]
    _label(axis, rows)
    axis.set_xlabel("ms a step")
    figure.legend(loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    return Picture(
        f"bench-breakdown-{name}", f"Where a step's time goes: {name}",
        "Computation, waiting for the last rank's gradients, negotiation and data movement; the "
        "gradients are reduced after the computation. The source's Figures 6.6, 6.7 and 6.17.",
        figure)


def _label(axis, rows: Sequence[Row], also: Callable[[Row], str] = lambda row: "") -> None:
    """A line of the axis for each row, the first on top."""
    axis.set_yticks(range(len(rows)), [
        f"{row.cell.model}, {row.cell.ranks} ranks{also(row)}: {row.series}" for row in rows],
        fontsize=9)
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)


def _contention(rows: Sequence[Row]) -> Picture | None:
    """The background thread's CPU time, and the switches with each kind of input."""
    profiled = [row for row in rows if row.background is not None]
    if not profiled:
        return None
    figure = Figure(figsize=(8.0, 1.2 + 0.35 * len(profiled)), layout="constrained")
    cpu, switches = figure.subplots(1, 2, sharey=True)
    colours = [series_colour(row.series) for row in profiled]
    cpu.barh(range(len(profiled)), [100 * row.background for row in profiled], 0.7, color=colours)
    switches.barh(range(len(profiled)), [row.switches for row in profiled], 0.7, color=colours)
    _label(cpu, profiled, lambda row: f", {row.cell.input}")
    switches.spines[["top", "right"]].set_visible(False)
    cpu.set_xlabel("background thread, % of a core")
    switches.set_xlabel("involuntary switches a step")
    return Picture(
        "bench-contention", "What the background thread costs while training",
        "CPU time of the background thread as a share of a core, and how often a core was taken "
        "from a thread of the process, means over ranks. The source's Figures 6.10 and 6.18, and "
        "its comparison of synthetic and real input (Chapter 6.2.5).", figure)
