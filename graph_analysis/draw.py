"""A picture of a plan: the graph of its collectives, with the buckets as boxes."""

from __future__ import annotations

import math
from os import PathLike
from typing import NamedTuple, Union

from graph_analysis.analysis import Analysis
from graph_analysis.palette import COLOURS
from graph_analysis.plan import Bucket, Plan, Slot, size

MOST_NAMES = 24  # tensors up to which the picture says names beside IDs
# All lengths are in inches.
GAP, LABEL, MARGIN, TITLE = 0.3, 0.2, 0.15, 0.4
BESIDE = 1.4  # for what is written beside a bucket
LEAST_WIDTH = 4.0
PROPORTION = 1.5  # of width to height, about


class Box(NamedTuple):
    """A bucket in the picture; `x` and `y` are its upper left corner, y grows downwards."""

    bucket: Bucket
    x: float
    y: float
    columns: int
    cell: tuple[float, float]

    @property
    def width(self) -> float:
        return self.columns * self.cell[0]

    @property
    def height(self) -> float:
        return -(-len(self.bucket.slots) // self.columns) * self.cell[1]

    def centre(self, number: int) -> tuple[float, float]:
        row, column = divmod(number, self.columns)
        return (self.x + (column + 0.5) * self.cell[0], self.y + (row + 0.5) * self.cell[1])


def draw(source: Union[Plan, Analysis], path: Union[str, PathLike]) -> None:
    """Writes a picture of a plan, or of every plan of an analysis, as what the suffix of `path`
    says: .svg, .png, .pdf.

    Buckets are in their order, line by line; an arrow leads from each tensor to those that cannot
    start before it is complete. Raises ImportError with the remedy if matplotlib is missing,
    ValueError if there is no plan."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("Pictures of plans need matplotlib: pip install matplotlib") from None
    plans = [source] if isinstance(source, Plan) else [
        region.plan for region in source.regions if region.plan]
    if not any(plan.buckets for plan in plans):
        raise ValueError("There is nothing to draw: no collective is planned.")
    top, width, pictures = 0.0, LEAST_WIDTH, []
    for plan in plans:
        boxes = _flow(plan, top + TITLE)
        pictures.append((plan, top, boxes))
        beside = BESIDE if len(plan.slots) <= MOST_NAMES else 0.0
        width = max([width, *[box.x + box.width + beside + MARGIN for box in boxes]])
        top = max(box.y + box.height for box in boxes) + GAP
    figure = Figure(figsize=(width, top))
    axis = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(top, 0))
    axis.set_axis_off()
    for plan, start, boxes in pictures:
        _draw(axis, plan, start, boxes)
    figure.savefig(path, dpi=150)


def _flow(plan: Plan, top: float) -> list[Box]:
    """The buckets from left to right in lines below each other; a bucket a line if there are few
    tensors."""
    few = len(plan.slots) <= MOST_NAMES
    cell = (max(0.5, 0.085 * max(len(_short(slot)) for slot in plan.slots) + 0.15), 0.45) if few \
        else (0.36, 0.28)
    boxes = [Box(bucket, 0, 0, _columns(len(bucket.slots)), cell) for bucket in plan.buckets]
    area = sum((box.width + GAP) * (box.height + GAP + LABEL) for box in boxes)
    line = 0.0 if few else max(math.sqrt(PROPORTION * area), *[box.width for box in boxes], 0.0)
    result, x, y, tallest = [], MARGIN, top + LABEL, 0.0
    for box in boxes:
        if x > MARGIN and x + box.width > MARGIN + line:
            x, y, tallest = MARGIN, y + tallest + GAP + LABEL, 0.0
        result.append(box._replace(x=x, y=y))
        x += box.width + GAP
        tallest = max(tallest, box.height)
    return result


def _columns(tensors: int) -> int:
    return tensors if tensors <= 4 else math.ceil(math.sqrt(2 * tensors))


def _draw(axis, plan: Plan, top: float, boxes: list[Box]) -> None:
    from matplotlib.patches import Rectangle
    count = len(plan.buckets)
    axis.text(MARGIN, top + 0.25, f"{plan.name}: {len(plan.slots)} tensors, {size(plan.nbytes)}, "
              f"{count} bucket{'s' * (count != 1)}", fontsize=10, va="center")
    places = {slot.id: box.centre(number)
              for box in boxes for number, slot in enumerate(box.bucket.slots)}
    few = len(plan.slots) <= MOST_NAMES
    for number, box in enumerate(boxes):
        colour = COLOURS[number % len(COLOURS)]
        axis.add_patch(Rectangle((box.x, box.y), box.width, box.height, facecolor=colour,
                                 alpha=0.3, edgecolor=colour))
        if few:  # beside the bucket, where no arrow goes
            axis.text(box.x + box.width + 0.1, box.y + box.height / 2,
                      f"bucket {number}, {size(box.bucket.nbytes)}", va="center", fontsize=8)
        else:
            axis.text(box.x, box.y - 0.03, f"{number}: {size(box.bucket.nbytes)}", va="bottom",
                      fontsize=7, color="#333333")
        for slot in box.bucket.slots:
            axis.text(*places[slot.id], f"{slot.id}\n{_short(slot)}" if few else str(slot.id),
                      ha="center", va="center", fontsize=8 if few else 7, zorder=3)
    for slot in plan.slots:
        for before in slot.after:
            if before in places:
                axis.annotate("", places[slot.id], places[before], zorder=2, arrowprops={
                    "arrowstyle": "-|>", "color": "#777777", "linewidth": 0.7,
                    "shrinkA": 13 if few else 7, "shrinkB": 13 if few else 7})


def _short(slot: Slot) -> str:
    return slot.name.rsplit("/", 1)[-1][-20:]
