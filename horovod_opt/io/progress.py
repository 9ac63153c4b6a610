"""How far work that is counted in bytes has come, in lines or as a bar, and what a job says while
it is being set up."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from horovod_opt.io.memory_limit import show

ProgressFunction = Callable[[int, int], None]  # bytes done, bytes in all; one thread at a time

EVERY_SECONDS = 5.0


def say(text: str) -> None:
    """One line, in one piece: several ranks may write to one pipe."""
    sys.stderr.write(f"horovod-opt: {text}\n")
    sys.stderr.flush()


class ProgressLog:
    """A ProgressFunction that says so now and then, and nothing of what is soon over."""

    def __init__(self, title: str):
        self._title = title
        self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last >= EVERY_SECONDS:
            self._last = now
            say(f"{self._title} {show(done)} of {show(total)}")


class Meter:
    """Adds up the bytes that threads report, and calls `progress`, if there is one: never with less
    than before, never with more than `total`."""

    def __init__(self, progress: ProgressFunction | None, total: int):
        self._progress = progress
        self._total = total
        self._lock = threading.Lock()
        self._done = 0
        self.advance(0)

    def advance(self, count: int) -> None:
        with self._lock:
            self._done = min(self._done + count, self._total)
            if self._progress:
                self._progress(self._done, self._total)

    def finish(self) -> None:
        self.advance(self._total)


@contextmanager
def show_bar(title: str) -> Iterator[ProgressFunction]:
    """The bar is on stderr, if a terminal is."""
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
