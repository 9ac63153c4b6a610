"""Weak scaling of ResNet50 in PyTorch: off, topo, and PyTorch's own DistributedDataParallel.

The source has TensorFlow only, and no peer. DistributedDataParallel reduces over Gloo, on CPUs, and
is measured with `static_graph=True` as well.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from study import Study, training, whole_steps

from horovod_lab.report.source import Beside, gains


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    return gains(whole_steps(documents))


STUDY = Study(
    name="pytorch_ddp", text=__doc__, repeats=("Figure 6.16, p. 135",),
    measurement=training("--framework", "torch", "--models", "ResNet50", "--modes",
                         "off+yield,topo", "--peers", "--ranks", 2, 4),
    compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
