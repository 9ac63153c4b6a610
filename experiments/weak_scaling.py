"""Weak scaling of ResNet50 in every mode.

Each rank has a batch of its own size. The gain over off is compared, and what is left of training
without communication. There each rank had a GPU and seven cores; here all share one machine.
TensorFlow's own MultiWorkerMirroredStrategy is measured as well.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from study import Study, training, whole_steps

from horovod_lab.report.source import Beside, efficiency, gains


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    rows = whole_steps(documents)
    return [*gains(rows), *efficiency(rows)]


STUDY = Study(
    name="weak_scaling", text=__doc__, repeats=("Figure 6.5, p. 120", "Figure 6.16, p. 135"),
    measurement=training("--models", "ResNet50", "--peers", "--ranks", 2, 4), compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
