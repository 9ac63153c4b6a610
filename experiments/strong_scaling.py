"""Strong scaling of ResNet50 in every mode.

The images of a step are the same number for all ranks together, so that more ranks have less to
compute and the same to reduce. The largest gain of any mode is compared.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from study import Study, Tool, whole_steps

from horovod_lab.measuring.literature import GAIN, STRONG_GAIN
from horovod_lab.report.source import Beside, largest


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    modes = [row for row in whole_steps(documents) if row.series in GAIN]
    return largest(modes, "gain", STRONG_GAIN)


STUDY = Study(
    name="strong_scaling", text=__doc__, repeats=("Figure 6.19, p. 138",),
    measurement=Tool(("bench", "training"), (
        "--models", "ResNet50", "--pixels", 96, "--threads", 1, "--global-batch", 16,
        "--ranks", 1, 2, 4)),
    compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
