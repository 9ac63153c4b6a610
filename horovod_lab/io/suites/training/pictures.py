"""The tables and the picture of the suite training, from its JSON alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_analysis.palette import COLOURS
from horovod_lab.io.suites.bars import Bar, Panel, figure
from horovod_lab.io.suites.training.jobs import SOURCES
from horovod_lab.io.suites.training.results import ALONE, SPEED, TrainingCell, verdicts
from horovod_lab.measuring.present import Grid, Picture, Section
from horovod_lab.measuring.verdict import in_two_lines

TITLE = "ResNet50 in mode topo, and its input"


def section(document: dict[str, Any], targets: bool) -> Section:
    judged = list(verdicts(document))
    reached = f"{sum(one.met is True for _, one in judged)} of {len(judged)} targets met"
    found = list(TrainingCell.each(document))
    grids = [_measured(cell) for cell in found]
    if targets:
        grids.append(_targets(judged, reached))
    drawn = any(cell.values(name, SPEED) for cell in found for name in cell.series)
    return Section(TITLE, f"Images/s of a training with several sources of input: {reached}.",
                   grids, [_picture(found)] if drawn else [])


def _measured(cell: TrainingCell) -> Grid:
    return Grid(f"{TITLE}: {cell.ranks} ranks",
                ("input", "images/s", "x reference", "more CPU, ms / image",
                 "alone, CPU ms / image", ""),
                [_row(cell, name) for name in cell.series],
                "Images of all ranks. Medians, smallest to largest job. The reference is JPEGs in "
                "memory, or of raw records one batch. Alone: batches are taken, nothing trains.")


def _row(cell: TrainingCell, name: str) -> tuple[str, ...]:
    failed = len(cell.failures(name))
    return (SOURCES[name].label, in_two_lines(cell.spread(name, SPEED)),
            in_two_lines(cell.speed(name), ".3f"), in_two_lines(cell.input_cpu(name), "+.2f"),
            in_two_lines(cell.spread(name, ALONE)), f"{failed} failed" if failed else "")


def _targets(judged: Sequence[tuple], reached: str) -> Grid:
    rows = [(SOURCES[one.target.series].label, str(ranks), str(one.target),
             in_two_lines(one.value, ".3f"), one.words()) for ranks, one in judged]
    return Grid(f"{TITLE}: {reached}", ("of", "ranks", "images/s", "value", "met"), rows,
                "Medians of the pairs of a round, smallest to largest.")


def _picture(found: Sequence[TrainingCell]) -> Picture:
    raw = list(SOURCES).index("synthetic")  # from here on
    shown = [Bar(name, source.label, COLOURS[number % raw], "//" if number >= raw else None)
             for number, (name, source) in enumerate(SOURCES.items())]
    panels = (Panel(SPEED, "images/s of all ranks"), Panel(ALONE, "batches alone: CPU ms / image"))
    return Picture("io-training", TITLE, "A training on several sources of input, and what their "
                   "batches cost alone. Hatched: no JPEGs. Bars are medians, lines reach from the "
                   "smallest to the largest job.", figure(found, shown, panels, (10, 7), 3))
