"""Runs the job: its output, its signals, its end, and the end of all its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType

from horovod_lab.profile.live import Screen
from horovod_lab.profile.proc import Proc
from horovod_lab.profile.ranks import MARK, kill_marked, marked

GRACE = 10.0  # s that the job has to end itself, after a signal
LINGER = 5.0  # s that its processes may outlive it
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NotStarted(Exception):
    """There is no such program, or it cannot be run."""


class Job:
    """Has a session of its own: a Ctrl-C reaches it once, from us, and not twice.

    Writes to our stdout and stderr. Where these are a terminal that has a live table as well, they
    pass through the table's `screen`, so that neither destroys the other.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], proc: Proc,
                 screen: Screen | None):
        self.interrupted = 0  # the first signal that we got
        self.leftover = 0  # processes that had to be killed
        self._mark = environ[MARK]
        self._proc = proc
        self._deadline = float("inf")
        self._process: subprocess.Popen | None = None
        self._before = {number: signal.signal(number, self._forward) for number in SIGNALS}
        streams = {1: sys.stdout, 2: sys.stderr}
        piped = {number for number, stream in streams.items() if screen and stream.isatty()}
        try:
            self._process = subprocess.Popen(
                command, env=dict(environ), start_new_session=True,
                stdout=subprocess.PIPE if 1 in piped else None,
                stderr=subprocess.PIPE if 2 in piped else None)
        except OSError as error:
            self.release()
            raise NotStarted(f"{command[0]} cannot be started: {error.strerror}") from error
        self._copying = [
            threading.Thread(target=_copy, args=(pipe.fileno(), number, screen), daemon=True)
            for number, pipe in ((1, self._process.stdout), (2, self._process.stderr)) if pipe]
        for thread in self._copying:
            thread.start()
        if self.interrupted:
            os.killpg(self._process.pid, self.interrupted)

    def running(self) -> bool:
        """Also ends a job that did not end itself in time after a signal."""
        if time.monotonic() > self._deadline:
            self.leftover += kill_marked(self._proc, self._mark)
        return self._process.poll() is None

    def end(self) -> int:
        """The exit status, when no process of the job is left: 128 and the signal's number for one
        that ended by a signal."""
        deadline = time.monotonic() + LINGER
        if self._process.poll() is None:
            deadline = 0.0
        while time.monotonic() < deadline and marked(self._proc, self._mark):
            time.sleep(0.1)
        self.leftover += kill_marked(self._proc, self._mark)
        status = self._process.wait()
        for thread in self._copying:
            thread.join(timeout=1)
        return 128 - status if status < 0 else status

    def release(self) -> None:
        """From now on a signal ends us, as ever."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        # After the second one the user does not want to wait.
        self._deadline = 0.0 if self.interrupted else time.monotonic() + GRACE
        self.interrupted = self.interrupted or number
        if self._process is not None and self._process.returncode is None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                pass


def _copy(source: int, target: int, screen: Screen) -> None:
    while data := os.read(source, 65536):
        screen.write(target, data)
