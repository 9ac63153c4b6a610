"""What was measured here beside the source's figures.

The source is S. Pumma, "Scalability Analysis and Optimization for Large-Scale Deep Learning",
Virginia Tech, 2019: TensorFlow 1.14 and Horovod 0.16.3 on Summit, ResNet50 unless it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horovod_opt.bench.training.results import Row, rows
from horovod_opt.measuring.present import Grid, Section

GAINS = {"gs": "10", "nbcs": "16", "scp": "18", "topo": "21", "topo+scp": "23"}


def beside_the_source(documents: Sequence[dict[str, Any]]) -> Section:
    """A table of what the benchmarks among the documents measured; none without any."""
    found = [row for document in documents if document["kind"] == "bench"
             for row in rows(document["measurements"]) if not row.cell.separate]
    lines = [*_gains(found), *_thread(found), *_switches(found), *_efficiency(found)]
    return Section(
        "Beside the source", "What the dissertation measured on Summit, and this machine.",
        [Grid("The source's figures, and those of this machine",
              ("", "source", "here", "where here"), lines,
              "Source: Pumma 2019, Chapters 6.2.3 to 6.4.1, up to 24,576 GPUs. CPU training on few "
              "cores is another case than GPUs with seven cores each: expect the direction, not "
              "the size, to agree. The simulation's own table compares it at the source's scale."
              )] if lines else [])


def _largest(found: Sequence[Row], series: str, field: str) -> tuple[float, Row] | None:
    values = [(getattr(row, field), row) for row in found if row.series == series]
    values = [(getattr(value, "mean", value), row) for value, row in values if value is not None]
    return max(values, key=lambda one: one[0], default=None)


def _gains(found: Sequence[Row]) -> list[tuple[str, ...]]:
    lines = []
    for mode, source in GAINS.items():
        best = _largest(found, mode, "gain")
        if best:
            lines.append((f"largest gain of {mode} over off, %", f"up to {source}",
                          f"{100 * best[0]:.0f}", str(best[1].cell)))
    return lines


def _thread(found: Sequence[Row]) -> list[tuple[str, ...]]:
    lines = []
    for mode, source in (("off", "60 to 90"), ("topo", "about 6")):
        most = _largest(found, mode, "background")
        if most:
            lines.append((f"background thread in {mode}, % of a core", source,
                          f"{100 * most[0]:.0f}", str(most[1].cell)))
    return lines


def _switches(found: Sequence[Row]) -> list[tuple[str, ...]]:
    of = {(row.cell, row.series): row.switches for row in found if row.switches}
    lines = []
    by_input = [(switches / of[other], cell) for (cell, series), switches in of.items()
                for other in of if series == other[1] == "off" and cell.input == "real"
                and vars(other[0]) == {**vars(cell), "input": "synthetic"}]
    if by_input:
        ratio, cell = max(by_input, key=lambda one: one[0])
        lines.append(("involuntary switches, real over synthetic input, off", "8.5",
                      f"{ratio:.2g}", str(cell)))
    by_mode = [(of[cell, "off"] / switches, cell) for (cell, series), switches in of.items()
               if series == "topo" and (cell, "off") in of]
    if by_mode:
        ratio, cell = max(by_mode, key=lambda one: one[0])
        lines.append(("involuntary switches, off over topo", "3 to 25", f"{ratio:.2g}", str(cell)))
    return lines


def _efficiency(found: Sequence[Row]) -> list[tuple[str, ...]]:
    off = [row for row in found if row.series == "off" and row.efficiency]
    if not off:
        return []
    row = max(off, key=lambda one: one.cell.ranks)
    return [("efficiency of off at the largest number of ranks, %", "30.3 (24,576 GPUs)",
             f"{100 * row.efficiency.mean:.1f}", str(row.cell))]
