"""Weak scaling of ResNet50 on several nodes: topo against the best of off.

The nodes are virtual hosts of this machine, each with a network namespace of its own: they share
its cores, and their messages cost time of the cores that compute. What the source compares with is
off as it comes. Here it is the faster one of off that yields, under MPI, and off under Gloo.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from study import Study, Tool

from horovod_lab.bench.nodes.results import cells
from horovod_lab.bench.nodes.rows import OTHERS, TOPO
from horovod_lab.measuring.literature import GAIN
from horovod_lab.report.source import Beside


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    """One for each layout in which nothing limits the network."""
    besides = []
    for cell in (cell for document in documents for cell in cells(document["measurements"])):
        best = cell.best(OTHERS)
        speed = best and cell.speed(TOPO, best)
        if cell.workload.name == "resnet50" and cell.layout.megabits is None and speed:
            besides.append(Beside(GAIN[TOPO], speed.median - 1, f"{cell.layout}, over {best}"))
    return besides


STUDY = Study(
    name="between_nodes", text=__doc__, repeats=("Figure 6.16, p. 135",),
    measurement=Tool(("bench", "nodes")), compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
