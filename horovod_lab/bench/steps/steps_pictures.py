"""The tables and the picture of the suite steps, from its JSON alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from horovod_lab.bench.steps.results import Cell, cells, verdicts
from horovod_lab.bench.worker_job import LIMIT, limit_and_base_first
from horovod_lab.measuring.comparison import Spread
from horovod_lab.measuring.present import Grid, Picture, Section
from horovod_lab.measuring.verdict import Verdict, in_two_lines
from horovod_lab.style import series_colour

TITLE = "Kinds of training step"
OF = "off, off with mpi_yield_when_idle, gs and nbcs"


def section(document: dict[str, Any]) -> Section:
    measured_cells = list(cells(document["measurements"]))
    verdicts_by_cell = [(cell, verdicts(cell)) for cell in measured_cells]
    answers = [verdict.met for _, of_cell in verdicts_by_cell for verdict in of_cell]
    summary = f"{sum(is_met is True for is_met in answers)} of {len(answers)} targets met"
    picture = _picture(measured_cells)
    return Section(TITLE, f"Small training steps of many kinds in each mode: {summary}.",
                   [_results_grid(measured_cells), _targets_grid(verdicts_by_cell, summary)],
                   [picture] if picture else [])


def _series(cells: Sequence[Cell]) -> list[str]:
    return sorted(dict.fromkeys(name for cell in cells for name in cell.values),
                  key=limit_and_base_first)


def _results_grid(cells: Sequence[Cell]) -> Grid:
    names = _series(cells)
    lines = []
    for cell in cells:
        lines.append((f"{cell.kind.label}, {cell.kind.unit}", str(cell.ranks),
                      *(_value(cell, name) for name in names),
                      "" if cell.rounds is None else str(cell.rounds)))
    return Grid(f"{TITLE}: measured", ("step", "ranks", *names, "rounds"), lines,
                "Medians, smallest to largest job. Rounds: of negotiation in steady state, the "
                "most of a job in topo.")


def _value(cell: Cell, series: str) -> str:
    values, failed = cell.values.get(series, {}), len(cell.failures.get(series, ()))
    text = in_two_lines(Spread.of(list(values.values()))) if values else cell.failed([series])
    return f"{text}\n{failed} of {failed + len(values)} failed" if failed and values else text


def _targets_grid(verdicts_by_cell: Sequence[tuple[Cell, Sequence[Verdict]]], summary: str) -> Grid:
    """A line for each target; the first of a step also has how fast each mode is."""
    names = [name for name in _series([cell for cell, _ in verdicts_by_cell]) if name != LIMIT]
    lines = []
    for cell, of_cell in verdicts_by_cell:
        best = cell.best()
        first = (cell.kind.label, str(cell.ranks),
                 *(in_two_lines(cell.speed(name, best), ".2f") if best else "" for name in names))
        for verdict in of_cell:
            lines.append((*first, str(verdict.target),
                          in_two_lines(verdict.value, verdict.target.form), verdict.words()))
            first = ("",) * len(first)
    return Grid(f"{TITLE}: {summary}",
                ("step", "ranks", *names, "target", "value", "met"), lines,
                f"Speeds as multiples of that of the best: the fastest of {OF}. Medians of the "
                "pairs of a round, smallest to largest. Value: of topo. Alone: without "
                "communication.")


def _picture(cells: Sequence[Cell]) -> Picture | None:
    """A panel for each number of ranks, with a line for each step: the speed of each mode."""
    best_by_cell = [(cell, best) for cell in cells if (best := cell.best())]
    if not best_by_cell:
        return None
    names = _series([cell for cell, _ in best_by_cell])
    ranks = sorted({cell.ranks for cell, _ in best_by_cell})
    labels = list(dict.fromkeys(cell.kind.label for cell, _ in best_by_cell))
    figure = Figure(figsize=(3.0 + 4.0 * len(ranks), 1.8 + 0.45 * len(labels)),
                    layout="constrained")
    axes = figure.subplots(1, len(ranks), squeeze=False, sharex=True, sharey=True)[0]
    for axis, count in zip(axes, ranks):
        axis.axvline(1, color="black", linewidth=0.8)
        for index, name in enumerate(names):
            points = [(labels.index(cell.kind.label), cell.speed(name, best))
                      for cell, best in best_by_cell if cell.ranks == count]
            _points(axis, [(place, speed) for place, speed in points if speed],
                    0.12 * (index - (len(names) - 1) / 2), name)
        axis.set_title(f"{count} ranks", fontsize=11)
        axis.set_xlabel("speed, best other mode = 1")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_xscale("log")
    axes[0].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0].xaxis.set_major_formatter("{x:g}")
    axes[0].xaxis.set_minor_formatter("")
    low, high = axes[0].get_xlim()
    axes[0].set_xlim(min(low, 0.4), max(high, 2.5))
    axes[0].set_yticks(range(len(labels)), labels, fontsize=9)
    axes[0].set_ylim(len(labels) - 0.5, -0.5)
    handles = {label: handle for axis in axes
               for handle, label in zip(*axis.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center",
                  ncols=len(handles), fontsize=9, frameon=False)
    return Picture(
        "steps", TITLE,
        f"How fast each mode is in relation to the fastest of {OF}. Dots are medians of the pairs "
        "of a round, bars reach from the smallest to the largest.", figure)


def _points(axis, points: Sequence[tuple[int, Spread]], shift: float, name: str) -> None:
    if not points:
        return
    medians = [speed.median for _, speed in points]
    errors = [[speed.median - speed.low for _, speed in points],
              [speed.high - speed.median for _, speed in points]]
    axis.errorbar(medians, [place + shift for place, _ in points], xerr=errors, fmt="o",
                  markersize=4.5, color=series_colour(name), capsize=2, elinewidth=1, label=name)
