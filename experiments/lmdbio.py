"""LMDBIO's strategies, each over LMDB: the micro-benchmark that reads and does not train.

On the simulated parallel file system, so as root. The source's speeds are those of 128 nodes of 36
cores on GPFS, with 9.4 million images. Here it is four nodes of two ranks, which share few cores;
as there, a node reads 144 records in each iteration.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Optional

from study import ROOT, Study, Tool

from horovod_lab.io.suites.lmdb.results import SPEED, LadderCell
from horovod_lab.measuring.comparison import Spread, by_round, ratio
from horovod_lab.measuring.comparison import compare as in_pairs
from horovod_lab.measuring.literature import LADDER, LADDER_SWITCHES
from horovod_lab.report.source import Beside


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    besides = []
    for document in documents:
        nodes, batch = (document["settings"][name] for name in ("nodes", "batch"))
        for cell in LadderCell.by_ranks(document):
            spreads = [(reported, cell.compare(name, "lmdb", SPEED, ratio))
                       for name, reported in LADDER.items()]
            at = f"{cell.ranks} ranks, {nodes} nodes, batch {batch}"
            besides += [Beside(reported, spread.median, at) for reported, spread
                        in (*spreads, (LADDER_SWITCHES, switches(cell))) if spread is not None]
    return besides


def switches(cell: LadderCell) -> Optional[Spread]:
    """Those of LMDB as a multiple of those of LMM, voluntary and involuntary."""
    lmdb, lmm = (by_round(cell.measurements, name, lambda job: (
        job["voluntary_switches"] + job["involuntary_switches"])) for name in ("lmdb", "lmm"))
    return in_pairs(lmdb, lmm, ratio)


STUDY = Study(
    name="lmdbio", text=__doc__,
    repeats=("Figure 3.6, p. 48", "Figure 3.8, p. 50", "Figure 4.6, p. 68", "Figure 5.5, p. 93",
             "Figure 5.7, p. 95", "Figure 5.8, p. 97", "Figure 5.9, p. 98"),
    measurement=Tool(("io", "bench"), ("--suite", "lmdb", "--stand", "parallel",
                                       "--batch", 72, "--records", 16384, "--data",
                                       ROOT / "build" / "io-data")),
    compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
