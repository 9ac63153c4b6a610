"""How often the ranks should agree on the time to sleep, in gs.

Agreeing costs an allreduce, and keeps the ranks in step. The source says that agreeing in every
cycle (N = 1) was best there, and shows no figure. Here it is a picture: the gain over off by N.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from study import Study, training, whole_steps

from horovod_lab.bench.training.jobs import Cell
from horovod_lab.bench.training.results import Row
from horovod_lab.bench.worker_job import gs_interval
from horovod_lab.measuring.comparison import ConfidenceInterval
from horovod_lab.measuring.literature import GS_INTERVAL
from horovod_lab.report.source import Beside


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    """The fastest of each number of ranks, and which the noise does not tell from it."""
    by_cell: dict[Cell, list[Row]] = {}
    for row in whole_steps(documents):
        if gs_interval(row.series) and row.gain:
            by_cell.setdefault(row.cell, []).append(row)
    besides = []
    for cell, rows in by_cell.items():
        fastest = max(rows, key=lambda row: row.gain.mean)
        alike = [str(gs_interval(row.series)) for row in rows
                 if row is not fastest and _overlap(row.gain, fastest.gain)]
        also = f"; no slower within the intervals: {', '.join(alike)}" if alike else ""
        besides.append(Beside(GS_INTERVAL, gs_interval(fastest.series), f"{cell}{also}"))
    return besides


def _overlap(slower: ConfidenceInterval, faster: ConfidenceInterval) -> bool:
    return slower.high is not None and slower.high >= faster.low


STUDY = Study(
    name="gs_interval", text=__doc__, repeats=("Chapter 6.3.1",),
    measurement=training("--models", "ResNet50", "--modes", "off+yield,gs,gs/2,gs/5,gs/10,gs/50",
                         "--ranks", 2, 4),
    compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
