"""What goes wrong on this rank, and when: the program shows where it is."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable

LATE_SECONDS, STOPPED_SECONDS = 1.5, 2
# Longer than Horovod waits before it ends the job.
NEVER_SECONDS = 12


class ScriptError(Exception):
    """A bug in the training script."""


class Left(Exception):
    """What the script catches."""


class Trouble:
    """A fault of this rank, if `fault` is one, and small delays if it is the late one."""

    def __init__(self, fault, is_late: bool, shutdown: Callable[[], None]):
        self._fault, self._is_late, self._end = fault, is_late, shutdown
        self._armed, self._lock = False, threading.Lock()
        self._phase, self._turn = -1, 0
        self._delays = random.Random(1)
        self._left_at: int | None = None

    def begins(self, phase: int) -> None:
        """The first thread is about to make the next call of that phase."""
        self._turn = self._turn + 1 if phase == self._phase else 0
        self._phase = phase
        if self._fault and (phase, self._turn) == (self._fault.phase, self._fault.turn):
            self._armed = True

    def leave_at(self, place: int | None) -> None:
        """The next visit of that place is this rank's last one in this call."""
        self._left_at = place

    def visit(self, place: int) -> None:
        """A collective at that place of a function has what it needs, or a gradient is there."""
        if self._is_late and self._delays.random() < 0.3:
            time.sleep(0.008 * self._delays.random())
        if self._armed and place >= self._fault.place:
            self._strike()
        if place == self._left_at:
            self._left_at = None
            raise Left("this rank has left")

    def ends(self) -> None:
        """The call is over; it may have had fewer places."""
        if self._armed:
            self._strike()

    def _strike(self) -> None:
        with self._lock:
            if not self._armed:
                return
            self._armed = False
        print(f"{self._fault}", flush=True)
        getattr(self, f"_{self._fault.kind}")()

    def _late(self) -> None:
        time.sleep(LATE_SECONDS)

    def _stopped(self) -> None:
        subprocess.Popen(["sh", "-c", f"sleep {STOPPED_SECONDS}; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)

    def _killed(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _raise(self) -> None:
        raise ScriptError("a bug in the training script")

    def _shutdown(self) -> None:
        """From another thread, while this one is in the middle of a call."""
        thread = threading.Thread(target=self._end)
        thread.start()
        thread.join()

    def _never(self) -> None:
        time.sleep(NEVER_SECONDS)
