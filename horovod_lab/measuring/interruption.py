"""How a measurement is ended from outside."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """Meanwhile SIGTERM, and SIGINT also in the background, where shells have it ignored, raise
    KeyboardInterrupt, so that jobs and what was made for them end."""
    before = {ending: signal.signal(ending, signal.default_int_handler)
              for ending in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)
