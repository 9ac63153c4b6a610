"""What was measured here beside the source's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from horovod_lab.bench.training.jobs import Cell
from horovod_lab.bench.training.results import Row, rows
from horovod_lab.measuring import literature
from horovod_lab.measuring.literature import Reported
from horovod_lab.measuring.present import Grid, Section


@dataclass(frozen=True)
class Beside:
    """A number of the source, and ours; `at` says where ours was found. `fitted`: the simulation's
    parameters were chosen with the source's number in view."""

    reported: Reported
    here: float
    at: str
    fitted: bool = False


def beside_the_source(documents: Sequence[dict[str, Any]]) -> Section:
    """A table of what the benchmarks among the documents measured; none without any."""
    whole = [row for document in documents if document["kind"] == "bench"
             for row in rows(document["measurements"]) if not row.cell.separate]
    besides = [*gains(whole), *background_cpu(whole), *switches(whole), *efficiency(whole)]
    return Section(
        "Beside the source", "What the dissertation measured on Summit, and this machine.",
        [Grid("The source's figures, and those of this machine",
              ("", "source", "here", "where here"),
              [(beside.reported.label, beside.reported.text(),
                beside.reported.show(beside.here), beside.at) for beside in besides],
              "Source: Pumma 2019, Chapters 6.2.3 to 6.4.1, up to 24,576 GPUs. CPU training on few "
              "cores is another case than GPUs with seven cores each: expect the direction, not "
              "the size, to agree. The simulation's own table compares it at the source's scale."
              )] if besides else [])


def largest(rows: Sequence[Row], field: str, reported: Reported) -> list[Beside]:
    """The largest value of the field beside the source's; none if no row has a value."""
    values = [(getattr(row, field), row.cell) for row in rows]
    return _largest([(getattr(value, "mean", value), cell) for value, cell in values
                     if value is not None], reported)


def _largest(values: Sequence[tuple[float, Cell]], reported: Reported) -> list[Beside]:
    if not values:
        return []
    value, cell = max(values, key=lambda pair: pair[0])
    return [Beside(reported, value, str(cell))]


def of_series(rows: Sequence[Row], series: str) -> list[Row]:
    return [row for row in rows if row.series == series]


def gains(rows: Sequence[Row]) -> list[Beside]:
    return [beside for mode, reported in literature.GAIN.items()
            for beside in largest(of_series(rows, mode), "gain", reported)]


def background_cpu(rows: Sequence[Row]) -> list[Beside]:
    return [beside for mode, reported in literature.BACKGROUND_CPU.items()
            for beside in largest(of_series(rows, mode), "background", reported)]


def switches(rows: Sequence[Row]) -> list[Beside]:
    """The largest ratios between kinds of input, and between modes."""
    of = {(row.cell, row.series): row.switches for row in rows if row.switches}
    by_input = [(switches / of[key], cell) for (cell, series), switches in of.items()
                for key in of if series == key[1] == "off" and cell.input == "real"
                and vars(key[0]) == {**vars(cell), "input": "synthetic"}]
    by_mode = [(of[cell, "off"] / switches, cell) for (cell, series), switches in of.items()
               if series == "topo" and (cell, "off") in of]
    return [*_largest(by_input, literature.SWITCHES_BY_INPUT),
            *_largest(by_mode, literature.SWITCHES_BY_MODE)]


def efficiency(rows: Sequence[Row]) -> list[Beside]:
    """Of off at its largest number of ranks."""
    off = [row for row in of_series(rows, "off") if row.efficiency]
    most = max((row.cell.ranks for row in off), default=0)
    return largest([row for row in off if row.cell.ranks == most], "efficiency",
                   literature.EFFICIENCY)
