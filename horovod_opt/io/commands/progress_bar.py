"""A bar for work that is counted in bytes, and the pattern that both commands take."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATTERN = ("a path or a quoted glob of TFRecord or tar files, an LMDB, or a folder of files with "
           "its classes as folders; several are one data set")


def pattern(options: argparse.Namespace) -> str | list[str]:
    """What `hio.open` is given for the same data: one text, or a list of several."""
    return options.patterns[0] if len(options.patterns) == 1 else options.patterns


@contextmanager
def show(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yields what takes bytes done and bytes in all; the bar is on stderr, if a terminal is."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True)
    bar = Progress(TextColumn("{task.description}"), BarColumn(),
                   DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn(),
                   console=console, transient=True, disable=not console.is_terminal)
    with bar:
        task = bar.add_task(title, total=None)
        yield lambda count, total: bar.update(task, completed=count, total=total)
