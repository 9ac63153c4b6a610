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
    judgements = list(verdicts(document))
    met = sum(verdict.met is True for _, verdict in judgements)
    score = f"{met} of {len(judgements)} targets met"
    cells = list(TrainingCell.by_ranks(document))
    grids = [_grid(cell) for cell in cells]
    if targets:
        grids.append(_target_grid(judgements, score))
    has_values = any(cell.values(name, SPEED) for cell in cells for name in cell.series)
    return Section(TITLE, f"Images/s of a training with several sources of input: {score}.",
                   grids, [_picture(cells)] if has_values else [])


def _grid(cell: TrainingCell) -> Grid:
    return Grid(f"{TITLE}: {cell.ranks} ranks",
                ("input", "images/s", "x reference", "more CPU, ms / image",
                 "alone, CPU ms / image", ""),
                [_row(cell, name) for name in cell.series],
                "Images of all ranks. Medians, smallest to largest job. The reference is JPEGs in "
                "memory, or of raw records one batch. Alone: batches are taken, nothing trains.")


def _row(cell: TrainingCell, name: str) -> tuple[str, ...]:
    failures = len(cell.failures(name))
    return (SOURCES[name].label, in_two_lines(cell.spread(name, SPEED)),
            in_two_lines(cell.speed(name), ".3f"), in_two_lines(cell.input_cpu(name), "+.2f"),
            in_two_lines(cell.spread(name, ALONE)), f"{failures} failed" if failures else "")


def _target_grid(judgements: Sequence[tuple], score: str) -> Grid:
    rows = [(SOURCES[verdict.target.series].label, str(ranks), str(verdict.target),
             in_two_lines(verdict.value, ".3f"), verdict.words()) for ranks, verdict in judgements]
    return Grid(f"{TITLE}: {score}", ("of", "ranks", "images/s", "value", "met"), rows,
                "Medians of the pairs of a round, smallest to largest.")


def _picture(cells: Sequence[TrainingCell]) -> Picture:
    raw = list(SOURCES).index("synthetic")  # from here on
    bars = [Bar(name, source.label, COLOURS[number % raw], "//" if number >= raw else None)
            for number, (name, source) in enumerate(SOURCES.items())]
    panels = (Panel(SPEED, "images/s of all ranks"), Panel(ALONE, "batches alone: CPU ms / image"))
    return Picture("io-training", TITLE, "A training on several sources of input, and what their "
                   "batches cost alone. Hatched: no JPEGs. Bars are medians, lines reach from the "
                   "smallest to the largest job.", figure(cells, bars, panels, (10, 7), 3))
