"""How results are shown: the same pictures and tables in a terminal, in files and in the report."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure
from rich.markup import escape
from rich.table import Table

# Okabe and Ito's palette, which colour-blind readers can tell apart; off stays grey.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
GREY = "#999999"
MODES = {"off": GREY, "gs": "#E69F00", "nbcs": "#56B4E9", "scp": "#CC79A7", "topo": "#0072B2",
         "topo+scp": "#009E73", "gs+nbcs": "#D55E00"}


def mode_colour(mode: str) -> str:
    """The same in every picture; modes that have none of their own share one."""
    return MODES.get(mode, "#F0E442")


@dataclass(frozen=True)
class Picture:
    """`name` is its file's, without ending; `caption` says what is to be seen, with its source."""

    name: str
    title: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Grid:
    """A table; the first column is left-aligned text, the others are numbers as text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Section:
    """What one JSON file amounts to."""

    title: str
    summary: str
    grids: Sequence[Grid] = field(default_factory=tuple)
    pictures: Sequence[Picture] = field(default_factory=tuple)


def rich_table(grid: Grid) -> Table:
    table = Table(*map(escape, grid.columns), title=escape(grid.title),
                  caption=escape(grid.note) or None)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in grid.rows:
        table.add_row(*map(escape, row))
    return table


def save_pictures(pictures: Sequence[Picture], folder: Path,
                  done: Callable[[Path], None] = lambda path: None) -> None:
    """As PNG files."""
    for picture in pictures:
        path = folder / f"{re.sub('[^a-z0-9.+-]', '-', picture.name.lower())}.png"
        picture.figure.savefig(path, dpi=150)
        done(path)
