"""How a series is drawn: the same in every picture of the benchmark."""

from __future__ import annotations

from horovod_lab.bench.worker_job import LIMIT, YIELDING
from horovod_lab.measuring.colours import mode_colour

OTHERS = {LIMIT: "black", YIELDING.name: "#555555", "plain upstream": "#C8C8C8",
          "MultiWorkerMirroredStrategy": "#8B4513", "DDP": "#8B4513",
          "DDP, static graph": "#CD853F"}
PALER = "80"  # alpha, in hexadecimal


def series_colour(series: str) -> str:
    """A mode's own; paler where MPI waits in another way than usual with the mode."""
    mode, varied, _ = series.partition(", ")
    return OTHERS.get(series) or mode_colour(mode) + (PALER if varied else "")


def series_line(series: str) -> str:
    """The style of a line in Matplotlib's words."""
    return "--" if series == LIMIT else ":" if ", " in series else "-"
