"""Signals that ask for a checkpoint: a handler sets a flag, and ranks agree on it between steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from typing import Any, Optional

from horovod_opt.io.errors import InputError
from horovod_opt.io.job.communication import Communication

SAVE, STOP = "save", "stop"
_NOTHING = "nothing"
_ORDER = (_NOTHING, SAVE, STOP)  # what wins where ranks differ comes last


class Signals:
    """Takes them from now on; SIGTERM and SIGINT ask to stop, others to save. Raises InputError."""

    def __init__(self, signals: Sequence[int]):
        self._asked = _NOTHING
        self._before: dict[int, Any] = {}
        if signals and threading.current_thread() is not threading.main_thread():
            raise InputError(f"signals={list(signals)!r} in a thread, where Python takes none; "
                             "remedy: make the buffer in the main thread")
        for number in signals:
            try:
                self._before[number] = signal.signal(number, self._take)
            except (ValueError, OSError, TypeError) as error:
                self.restore()
                raise InputError(f"signals={list(signals)!r}: {number!r} cannot be taken: {error}; "
                                 "remedy: such as (signal.SIGTERM, signal.SIGUSR1)") from error

    def _take(self, number: int, frame: object) -> None:
        wish = STOP if number in (signal.SIGTERM, signal.SIGINT) else SAVE
        self._asked = max(self._asked, wish, key=_ORDER.index)

    def asked(self, ranks: Communication) -> Optional[str]:
        """What the ranks' signals since the last call ask for; the same on all of them."""
        own, self._asked = self._asked, _NOTHING
        wish = max((word.decode() for word in ranks.allgather(own.encode())), key=_ORDER.index)
        return None if wish == _NOTHING else wish

    def restore(self) -> None:
        """What took them before does again."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
