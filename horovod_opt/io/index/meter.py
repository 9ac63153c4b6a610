"""Adds up the bytes that threads report."""

from __future__ import annotations

import threading
from collections.abc import Callable

Progress = Callable[[int, int], None]  # bytes done, bytes in all; called by one thread at a time


class Meter:
    """Calls `progress`, if there is one: never less than before, never more than `total`."""

    def __init__(self, progress: Progress | None, total: int):
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
