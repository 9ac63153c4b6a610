"""Bursts: now and then, for half a second, the background threads alone are read very often."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from horovod_lab.profile.cycles import Reading
from horovod_lab.profile.proc import Proc, parse_schedstat

RESOLUTION = 0.0005  # s, from one reading to the next
LENGTH = 0.5  # s
BUDGET = 0.003  # of a core, for all bursts
EARLIEST = 3.0  # s after the last background thread has appeared
MOST_BURSTS = 16  # kept; beyond that, every other one is given up


@dataclass(frozen=True)
class ThreadReadings:
    """What was read of one background thread in a burst."""

    tid: int
    readings: Sequence[Reading]
    runs_at_end: bool


@dataclass(frozen=True)
class Burst:
    """Of the background threads of each rank, by its pid; `start` as time.monotonic()."""

    start: float
    threads: Mapping[int, Sequence[ThreadReadings]]

    def only(self, background: Mapping[int, Collection[int]]) -> Burst:
        """Without what turned out to be no background thread: `background` by a rank's pid."""
        threads = {pid: [thread for thread in self.threads.get(pid, ()) if thread.tid in tids]
                   for pid, tids in background.items()}
        return Burst(self.start, {pid: readings for pid, readings in threads.items() if readings})


class Bursts:
    def __init__(self, proc: Proc):
        self.bursts: list[Burst] = []
        self.seconds = 0.0  # in all bursts, also those that were given up
        self._proc = proc
        self._next: float | None = None
        self._count = 0
        self._every = 1

    def due(self, now: float, complete: bool) -> bool:
        """`complete`: all ranks have a background thread."""
        if not complete:
            self._next = None
        elif self._next is None:
            self._next = now + EARLIEST
        return self._next is not None and now >= self._next

    def take(self, threads: Mapping[int, Sequence[int]]) -> None:
        """`threads`: by a rank's pid, its background threads."""
        cost = time.thread_time()
        burst = _read_often(self._proc, threads)
        cost = time.thread_time() - cost
        now = time.monotonic()
        self.seconds += now - burst.start
        self._next = now + cost / BUDGET
        self._count += 1
        if (self._count - 1) % self._every == 0:
            self.bursts.append(burst)
        if len(self.bursts) > MOST_BURSTS:
            self.bursts = self.bursts[::2]
            self._every *= 2


def _read_often(proc: Proc, threads: Mapping[int, Sequence[int]]) -> Burst:
    files: dict[tuple[int, int], int] = {}
    try:
        for pid, tids in threads.items():
            for tid in tids:
                try:
                    files[pid, tid] = os.open(proc.path(pid, tid, "schedstat"), os.O_RDONLY)
                except OSError:  # it has ended
                    continue
        start = time.monotonic()
        readings_of = _readings(files, start)
    finally:
        for file in files.values():
            os.close(file)
    threads_of: dict[int, list[ThreadReadings]] = {}
    for (pid, tid), readings in readings_of.items():
        stat = proc.stat(pid, tid)
        if len(readings) > 1 and stat is not None:
            threads_of.setdefault(pid, []).append(ThreadReadings(tid, readings, stat.state == "R"))
    return Burst(start, threads_of)


def _readings(files: Mapping[tuple[int, int], int],
              start: float) -> dict[tuple[int, int], list[Reading]]:
    """The first and the last of each thread, and between them those that differ."""
    texts: dict[tuple[int, int], bytes] = dict.fromkeys(files, b"")
    readings_of: dict[tuple[int, int], list[Reading]] = {thread: [] for thread in files}
    now = start
    while now < start + LENGTH:
        for thread, file in files.items():
            try:
                text = os.pread(file, 100, 0)
            except OSError:  # it has ended
                continue
            if text and text != texts[thread]:
                texts[thread] = text
                readings_of[thread].append(_reading(time.monotonic() - start, text))
        time.sleep(RESOLUTION)
        now = time.monotonic()
    for thread, readings in readings_of.items():
        if readings:
            readings.append(readings[-1]._replace(time=now - start))
    return readings_of


def _reading(time: float, text: bytes) -> Reading:
    cpu, delay, slices = parse_schedstat(text)
    return Reading(time, cpu * 1e-9, delay * 1e-9, slices)
