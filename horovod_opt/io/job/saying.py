"""What a job says while it is being set up."""

from __future__ import annotations

import sys
import time

from horovod_opt.io.memory_limit import show

EVERY_SECONDS = 5.0


def say(text: str) -> None:
    """One line, in one piece: several ranks may write to one pipe."""
    sys.stderr.write(f"horovod-opt: {text}\n")
    sys.stderr.flush()


class Progress:
    """Called with bytes done and in all; says so now and then, and nothing of what is soon over."""

    def __init__(self, what: str):
        self._what = what
        self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last >= EVERY_SECONDS:
            self._last = now
            say(f"{self._what} {show(done)} of {show(total)}")
