"""How results are shown: the same pictures and tables in a terminal, in files and in the report.

Commands import this for their options, also where neither rich nor Matplotlib is wanted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

WIDTH = 140  # characters, where the output is no terminal


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


def number(value: float, separator: str = "") -> str:
    """Three significant digits, without an exponent; `separator` between thousands."""
    return f"{value:{separator}.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def rich_table(grid: Grid) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(*map(escape, grid.columns), title=escape(grid.title),
                  caption=escape(grid.note) or None)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in grid.rows:
        table.add_row(*map(escape, row))
    return table


def save_pictures(pictures: Sequence[Picture], folder: Path) -> list[Path]:
    """As PNG files; returns their paths."""
    paths = []
    for picture in pictures:
        name = re.sub("[^a-z0-9.+-]+", "-", picture.name.lower())
        paths.append(folder / f"{name}.png")
        picture.figure.savefig(paths[-1], dpi=150)
    return paths


def show(section: Section, folder: Path) -> None:
    """The tables on stdout, the pictures in the folder."""
    from rich.console import Console

    output = Console()
    if not output.is_terminal:
        output = Console(width=WIDTH)
    for grid in section.grids:
        output.print(rich_table(grid))
    for path in save_pictures(section.pictures, folder):
        print(f"Written: {path}", file=sys.stderr)


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in a page. The cells are Markdown already."""
    return [f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows)]
