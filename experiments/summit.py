"""ResNet50 on Summit, simulated, from 6 to 24,576 ranks.

Most figures of the chapter at the source's own scale: from a model of each mode, not measured.
Numbers of the source that the model was fitted to are marked.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from study import Study, Tool

from horovod_lab.measuring.literature import NETWORK_GAIN
from horovod_lab.report.source import Beside
from horovod_lab.simulate.summit import FIGURES, LARGEST, complete


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    reported = {figure.text: figure.reported for figure in FIGURES}
    return [beside for document in documents for beside in (
        *(Beside(reported[row["figure"]], row["simulated"], f"{LARGEST:,} ranks, simulated",
                 row["fitted"]) for row in complete(document.get("source"))),
        *(Beside(NETWORK_GAIN[row["network"]], row["simulated"],
                 f"{row['ranks']:,} ranks, simulated")
          for row in complete(document.get("networks"))
          if row["source"] and not row["fitted"]))]


STUDY = Study(
    name="summit", text=__doc__,
    repeats=("Figures 6.5 to 6.7, pp. 120 to 122", "Figure 6.10, p. 124",
             "Figures 6.16 to 6.18, pp. 135 to 137", "Figure 6.20, p. 140"),
    measurement=Tool(("simulate",)), compare=compare, short=True)

if __name__ == "__main__":
    sys.exit(STUDY.main())
