"""The table while the job runs, below the job's own output."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from horovod_lab.profile.classes import BACKGROUND, CLASSES, INPUT, MAIN, SCHEDULING
from horovod_lab.profile.sampler import SampledRank, Usage

SHOWN = {BACKGROUND: "background", SCHEDULING: "scheduling", INPUT: "input", MAIN: "Python"}


class Screen:
    """A terminal to which two write: the job, whose bytes pass as they are, and the table, which is
    erased before them and drawn again after the end of a line."""

    def __init__(self, console: Console):
        self._console = console
        self._lock = threading.Lock()
        self._text = ""
        self._lines = 0
        self._at_line_start = True

    def write(self, descriptor: int, data: bytes) -> None:
        with self._lock:
            self._erase()
            _write_all(descriptor, data)
            self._at_line_start = data.endswith(b"\n")
            self._draw()

    def show(self, table: Table | None) -> None:
        text = ""
        if table is not None:
            with self._console.capture() as captured:
                self._console.print(table)
            text = captured.get()
        with self._lock:
            self._erase()
            self._text = text
            self._draw()

    def _erase(self) -> None:
        if self._lines:
            _write_all(self._console.file.fileno(), f"\x1b[{self._lines}A\r\x1b[J".encode())
            self._lines = 0

    def _draw(self) -> None:
        if self._text and self._at_line_start:
            _write_all(self._console.file.fileno(), self._text.encode())
            self._lines = self._text.count("\n")


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data):]


def live_table(ranks: Sequence[tuple[SampledRank, Callable[[str], Usage]]], seconds: float,
               most: int, host: str, caption: str) -> Table:
    """`ranks`: each with what a class of its threads used in the last `seconds`; at most `most`
    rows are shown."""
    table = Table(caption=f"{caption}; CPU and waiting for a core in % of a core, involuntary "
                  "context switches per second", caption_justify="left")
    table.add_column("rank", justify="right")
    table.add_column("host")
    for title in (*SHOWN.values(), "switches", "waiting"):
        table.add_column(title, justify="right")
    for rank, usage in ranks[:most]:
        total = sum((usage(name) for name in CLASSES), Usage())
        number = rank.process.rank
        table.add_row(
            "" if number is None else str(number), host,
            *(f"{100 * usage(name).cpu / seconds:.1f}" for name in SHOWN),
            f"{total.involuntary / seconds:,.0f}", f"{100 * total.run_delay / seconds:.1f}")
    if len(ranks) > most:
        table.add_row("...", f"{len(ranks) - most} more")
    return table
