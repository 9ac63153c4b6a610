"""How often the ranks should agree on the time to sleep, in gs.

Agreeing costs an allreduce, and keeps the ranks in step. The source says that agreeing in every
cycle (N = 1) was best there, and shows no figure. Here it is a picture: the gain over off by N.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from study import Study, whole_steps
from tools import training

from horovod_opt.bench.worker_job import interval
from horovod_opt.measuring.dissertation import GS_INTERVAL
from horovod_opt.report.source import Beside


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    """The fastest of each number of ranks."""
    fastest = {}
    for row in whole_steps(documents):
        if interval(row.series) and row.gain and (
                row.cell not in fastest or row.gain.mean > fastest[row.cell].gain.mean):
            fastest[row.cell] = row
    return [Beside(GS_INTERVAL, interval(row.series), str(cell)) for cell, row in fastest.items()]


STUDY = Study(
    name="gs_interval", text=__doc__, repeats=("Chapter 6.3.1",),
    measurement=training("--models", "ResNet50", "--modes", "off+yield,gs,gs/2,gs/5,gs/10,gs/50",
                         "--ranks", 2, 4),
    compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
