"""Time in these tests: events that they wait for, and a clock of their own. No verdict depends on
how fast a machine is, or on whether it does something else for some seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

SECONDS = 60  # what takes longer does not happen


def until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Returns when the condition holds, which something else brings about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.005)


class Clock:
    """In place of a module's `time`: it goes on while somebody sleeps, and never by itself."""

    def __init__(self) -> None:
        self.now = 1000.0  # s

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def __getattr__(self, name: str) -> Any:
        """What else the module has."""
        return getattr(time, name)
