"""Whoever waits for long says for whom, and why: other ranks may never come."""

from __future__ import annotations

import time
from collections.abc import Callable

from horovod_opt.io.progress import say

SECONDS = 10.0  # after which a wait is said


class Wait:
    """One that wakes up now and then, and says once what it waits for."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._is_said = False

    def look(self, describe: Callable[[float], str]) -> None:
        seconds = time.monotonic() - self._begin
        if seconds >= SECONDS and not self._is_said:
            self._is_said = True
            say(describe(seconds))
