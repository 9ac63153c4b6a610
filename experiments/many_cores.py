"""Weak scaling of ResNet50 in PyTorch on 16 cores: all of them compute, or most are idle.

With 16 ranks of one thread, and with 4 of four, all cores of 16 compute: what a thread takes of
them is missing there. With 4 ranks of one thread twelve are idle, and a thread that spins takes
nothing from anyone; the source's ranks had seven cores each. The first table is of one thread a
rank, the second of four. Where a series has been measured once only (n = 1), a difference of less
than a sixth says nothing: between jobs, what the same computation took of a core differed by as
much.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from study import Study, training, whole_steps

from horovod_lab.report.source import Beside, gains

TOOL = training("--framework", "torch", "--models", "ResNet50", "--modes",
                "off+yield,gs,nbcs,scp,topo,topo+scp,auto", "--peers")
RANKS = {1: (4, 16), 4: (4,)}  # by threads of a rank


class Benchmarks:
    """One for each number of threads, in a folder of its own."""

    passes_on = TOOL.passes_on
    add_options = TOOL.add_options

    def run(self, options: argparse.Namespace, further: Sequence[str], folder: Path) -> int:
        for threads, ranks in RANKS.items():
            status = TOOL.run(options, ["--threads", threads, "--ranks", *ranks, *further],
                              folder / f"threads-{threads}")
            if status:
                return status
        return 0


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    return gains(whole_steps(documents))


STUDY = Study(
    name="many_cores", text=__doc__, repeats=("Figure 6.16, p. 135",),
    measurement=Benchmarks(), compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
