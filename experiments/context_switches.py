"""Involuntary context switches of a step: real against synthetic input, off against topo.

The source takes them as a sign that threads compete for cores: the input pipeline, graph
scheduling, and the background thread that spins (6.2.5 and 6.4.1; it has no figure of them).
Where ranks have a core each, its threads compete with synthetic input already, and a step is as
slow as the core: real input adds little, and the ratios are smaller than on seven cores beside a
GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from study import Study, training, whole_steps

from horovod_lab.report.source import Beside, switches


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    return switches(whole_steps(documents))


STUDY = Study(
    name="context_switches", text=__doc__, repeats=("Chapter 6.2.5", "Chapter 6.4.1"),
    measurement=training("--models", "ResNet50", "--modes", "off+yield,topo", "--ranks", 2,
                         "--input", "synthetic,real"),
    compare=compare, short=True)

if __name__ == "__main__":
    sys.exit(STUDY.main())
