"""What tests wait for: events, and never so many seconds.

On a machine that is slow, or busy with something else, a process stands for seconds now and then,
and the kernel takes the page cache away. No verdict of a test depends on that: a wait is for
something that comes, MINUTE is for what never does, and a file that has to be in the page cache is
kept there.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

Value = TypeVar("Value")
MINUTE = 60.0  # seconds, in which comes what an idle machine has at once


def wait_until(condition: Callable[[], Value], seconds: float = MINUTE) -> Value:
    """What `condition` returns as soon as that is true. Fails the test if it never is."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"it has not come within {seconds} s"
        time.sleep(0.01)
    return value


def thread_names() -> list[str]:
    """Of this process's threads, as the kernel has them: also those that Python did not start."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it ends now
            names.append((task / "comm").read_text())
    return names


def without_descriptors(monkeypatch: pytest.MonkeyPatch, number: int
                        ) -> tuple[list[float], threading.Event]:
    """Until the event is set, accept() fails with this number of an error. The times when it has
    failed, and the event."""
    accept, times, has_room = socket.socket.accept, [], threading.Event()

    def accept_or_fail(listener: socket.socket) -> tuple:
        if has_room.is_set():
            return accept(listener)
        times.append(time.monotonic())
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "accept", accept_or_fail)
    return times, has_room


@contextmanager
def keep_cached(*paths: str | os.PathLike) -> Iterator[None]:
    """Meanwhile these files stay in the page cache: mlock(2) keeps their pages. Skips the test
    where so much memory may not be locked."""
    libc, locked = ctypes.CDLL(None, use_errno=True), []
    for path in filter(os.path.getsize, paths):
        with open(path, "rb") as file:
            pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        address = np.frombuffer(pages, np.uint8).ctypes.data
        if libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(len(pages))):
            pytest.skip(f"cannot lock {len(pages)} bytes of memory: "
                        f"{os.strerror(ctypes.get_errno())}")
        locked.append(pages)  # until the end
    yield


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
