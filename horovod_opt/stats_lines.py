"""Counters as lines of JSON, one file a rank, by interval: HOROVOD_OPT_STATS_FOLDER.

A line goes to its file in one write() behind what is there, and lies within one page of it: a
kernel that is to kill the process ends a write between two pages at the earliest. So every line is
whole. What an older kernel, another file system or a full disk has left of one all the same, the
next process that writes to the file cuts off.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from horovod_opt.counters import Stats
from horovod_opt.settings import PREFIX, SettingsError

NAME = PREFIX + "STATS_FOLDER"
_PAGE = 4096  # bytes, the smallest that there are
_GROWTH = 256  # bytes by which the next line may be longer: its numbers grow


def file_of(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.jsonl"


def make_folder(folder: str) -> None:
    """Raises SettingsError with the remedy unless this process can make files there."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SettingsError(
            f"{NAME}={ascii(folder)}: no file can be made there: {error.strerror}. Name a folder "
            "that every rank may write to, or unset it for no lines."
        ) from error


def read(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file; none where there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True)
            if line.endswith(b"\n")]


class StatsLines:
    """Of one rank: a thread appends what `read` returns once in `interval` seconds, and end() does
    so at last. An error that comes now is said once, on stderr, and ends the lines alone: no
    training ends for them, on one rank at that."""

    def __init__(self, folder: Path, interval: float, framework: str, read: Callable[[], Stats]):
        self._read, self._framework = read, framework
        self._path = file_of(folder, read().rank)
        self._file: int | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._interval = interval
        self._thread = threading.Thread(target=self._run, name="hvd-stats", daemon=True)
        try:
            self._file = _open(self._path)
        except OSError as error:
            self._give_up(error)
        self._thread.start()

    def end(self) -> None:
        """The last line. In a forked child, which is no rank: nothing."""
        if os.getpid() != self._pid:
            return
        self._stop.set()
        self._thread.join()
        self._append()
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _run(self) -> None:
        begin = time.monotonic()
        self._append()
        count = 1
        while not self._stop.wait(max(0.0, begin + count * self._interval - time.monotonic())):
            self._append()
            # A process that was stopped for long makes up for no line.
            count = max(count + 1, int((time.monotonic() - begin) / self._interval) + 1)

    def _append(self) -> None:
        with self._lock:
            if self._file is None:
                return
            try:
                _write(self._file, self._line())
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        print(f"horovod-opt: {self._path} gets no line of this rank from now on: {error.strerror}",
              file=sys.stderr, flush=True)
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _line(self) -> bytes:
        fields = {"time": round(time.time(), 6), "monotonic": round(time.monotonic(), 6),
                  "host": platform.node(), "pid": self._pid, "framework": self._framework,
                  **dataclasses.asdict(self._read())}
        return json.dumps(fields).encode()


def _open(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    with _locked(file):
        _cut(file)
    return file


class _locked:
    """Against a process of another framework's, or of an earlier job, that has the same rank. Where
    the file system knows no locks, without."""

    def __init__(self, file: int):
        self._file = file

    def __enter__(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError:
            pass

    def __exit__(self, *_: object) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError:
            pass


def _cut(file: int) -> None:
    """Removes what follows the last end of a line."""
    end = os.fstat(file).st_size
    position = end
    while position > 0:
        start = max(0, position - _PAGE)
        newline = os.pread(file, position - start, start).rfind(b"\n")
        if newline >= 0:
            position = start + newline + 1
            break
        position = start
    if position < end:
        os.ftruncate(file, position)


def _write(file: int, line: bytes) -> None:
    """Blanks before the line's end fill the page if the next line would not fit into it."""
    with _locked(file):
        start = os.fstat(file).st_size
        room = -(start + len(line) + 1) % _PAGE
        blanks = room if room < len(line) + 1 + _GROWTH else 0
        text = line + b" " * blanks + b"\n"
        if os.write(file, text) != len(text):
            os.ftruncate(file, start)
            raise OSError(0, "the disk is full")
