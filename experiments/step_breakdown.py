"""Where the time of a training step goes, in off and in topo.

The gradients are reduced after the computation, as they were in the source, where XLA lets nothing
overlap (6.2.1). As there, waiting for the last rank belongs to the background thread's overhead in
off, and to the movement of data in topo, which waits nowhere else.

There a rank had seven cores. Where ranks have a core each, as with two ranks on two cores, the
thread that spins takes its time from the computation: most of its cost is that computation takes
longer in off, which the source's shares do not count. The allreduce itself is between two ranks of
one node, and short.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from study import Study, benchmark_rows, training

from horovod_lab.bench.training.results import Row
from horovod_lab.measuring.literature import ALLREDUCE, IDLE, OVERHEAD
from horovod_lab.report.source import Beside


def overhead(row: Row) -> float:
    """Seconds a step."""
    parts = row.breakdown
    return parts["negotiation"] + (0 if row.series == "topo" else parts["waiting"])


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    besides = []
    for row in benchmark_rows(documents):
        if not row.breakdown or row.series not in OVERHEAD:
            continue
        step = sum(row.breakdown.values())
        allreduce = step - row.breakdown["computation"]
        if row.series == "off":
            besides += [Beside(ALLREDUCE, allreduce / step, str(row.cell)),
                        Beside(IDLE, overhead(row) / allreduce, str(row.cell))]
        besides.append(Beside(OVERHEAD[row.series], overhead(row) / step, str(row.cell)))
    return besides


STUDY = Study(
    name="step_breakdown", text=__doc__,
    repeats=("Figure 6.6, p. 121", "Figure 6.7, p. 122", "Figure 6.17, p. 136"),
    measurement=training("--models", "ResNet50", "--modes", "off+yield,topo", "--ranks", 2,
                         "--breakdown"),
    compare=compare, short=True)

if __name__ == "__main__":
    sys.exit(STUDY.main())
