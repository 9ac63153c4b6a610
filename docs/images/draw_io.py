"""Draws docs/images/io-way.svg: the way of a sample from its file to the training.

    python docs/images/draw_io.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch  # noqa: E402

OUTPUT = Path(__file__).parent / "io-way.svg"
BLUE, ORANGE, GREEN, GREY = "#4c78a8", "#f58518", "#54a24b", "#888888"


def box(axes, x: float, y: float, width: float, height: float, text: str, color: str) -> None:
    axes.add_patch(FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0.02,rounding_size=0.1", facecolor=color,
        alpha=0.18, edgecolor=color, linewidth=1.4))
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9)


def arrow(axes, start: tuple[float, float], end: tuple[float, float], text: str = "",
          style: str = "-") -> None:
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color=GREY,
                                   linewidth=1.3, linestyle=style, shrinkA=2, shrinkB=2))
    axes.text((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 0.12, text, ha="center",
              fontsize=8, color="#444444")


def main() -> None:
    plt.rcParams["svg.hashsalt"] = "horovod-opt"
    figure, axes = plt.subplots(figsize=(10.5, 4.2))
    axes.set(xlim=(0, 10.5), ylim=(0, 4.4))
    axes.axis("off")
    box(axes, 0.1, 1.2, 1.6, 1.5, "files\nTFRecord, tar,\nLMDB, folder", GREY)
    box(axes, 0.1, 3.2, 1.6, 0.8, "index\nwhere, how long,\nchecksum", GREY)
    box(axes, 2.6, 3.2, 2.0, 0.8, "order\nof seed and index,\nno state", ORANGE)
    box(axes, 2.6, 1.2, 2.0, 1.5, "reader of the node\na few threads: pread\nof chunks of 4 MiB",
        BLUE)
    box(axes, 5.3, 0.5, 1.7, 2.9,
        "node cache: memory\nthat the ranks\nof the node share\n\n"
        "chunks, until all\nhave ended their\n"
        "last step with it", BLUE)
    for number, y in ((0, 2.7), (1, 1.5), (2, 0.3)):
        box(axes, 7.9, y, 2.4, 0.95,
            f"rank {number}: copies, compares\nchecksums, decodes; a few\nbatches ready", GREEN)
        arrow(axes, (7.05, 1.95), (7.85, y + 0.47))
    arrow(axes, (1.75, 1.95), (2.55, 1.95), "once")
    arrow(axes, (4.65, 1.95), (5.25, 1.95))
    arrow(axes, (1.75, 3.6), (2.55, 3.6))
    arrow(axes, (3.6, 3.15), (3.6, 2.75), style="--")
    arrow(axes, (4.65, 3.8), (9.1, 3.7), "who takes what, and when", style="--")
    figure.savefig(OUTPUT, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
