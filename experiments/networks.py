"""Weak scaling of the nine networks of Table 6.1, topo against off.

The source explains the gains by the part of a step in which graph scheduling and input pipeline
need the CPU, and the loss of AlexNet by its small graph. There a GPU computes; here the ranks
compute on the cores on which off's thread spins, and every network gains. With few images a rank,
AlexNet loses the most to communication: topo reduces its large buckets in shared memory, off by
MPI (docs/lab/bench-sizes.md).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from study import Study, training, whole_steps

from horovod_lab.bench.training.results import Row
from horovod_lab.measuring.literature import NETWORK_GAIN, RESNETS_GAIN
from horovod_lab.report.source import Beside, largest, of_series


def gain_of_topo(rows: Sequence[Row]) -> list[Beside]:
    """The largest of each network."""
    return [beside for name, reported in {**NETWORK_GAIN, **RESNETS_GAIN}.items()
            for beside in largest([row for row in of_series(rows, "topo")
                                   if row.cell.model == name], "gain", reported)]


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    return gain_of_topo(whole_steps(documents))


STUDY = Study(
    name="networks", text=__doc__, repeats=("Figure 6.20, p. 140",),
    measurement=training("--models", "all", "--modes", "off+yield,topo",
                         "--ranks", 2, 4),
    compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
