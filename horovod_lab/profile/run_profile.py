"""One profile: starts the job, samples it until it ends, and makes the document."""

from __future__ import annotations

import json
import os
import platform
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from horovod_lab.measuring import documents
from horovod_lab.measuring.machine import SETTINGS
from horovod_lab.profile.bursts import Bursts
from horovod_lab.profile.classes import BACKGROUND, Classes
from horovod_lab.profile.job import Job
from horovod_lab.profile.live import Screen, live_table
from horovod_lab.profile.proc import Proc
from horovod_lab.profile.ranks import MARK, Finder
from horovod_lab.profile.record import Ranks, describe
from horovod_lab.profile.sampler import LOOKS, Sampler, Usage
from horovod_lab.profile.trace import Recording, write_trace
from horovod_opt.runtime import STATS_JSON

REFRESH = 1.0  # s: new processes, the live table
BUDGET = 0.005  # of a core, for samples: many threads are looked at less often


class Profile:
    """`run` and then `document`; raises NotStarted from job.py."""

    def __init__(self, command: Sequence[str], folder: Path, interval: float, classes: Classes,
                 console: Console | None, timeline: bool = False):
        """`interval` in seconds; `console`: the terminal of the live table, if there is one.
        `timeline`: all ranks write what they reduce and wait for."""
        self._command = command
        self._interval = interval
        self._classes = classes
        self._console = console
        self._proc = Proc()
        mark = uuid.uuid4().hex
        self._stats = folder.resolve() / "stats.json"
        self._recording = Recording(folder.resolve(), os.environ) if timeline else None
        self._environ = {**os.environ, MARK: mark, STATS_JSON: str(self._stats),
                         **(self._recording.environ if self._recording else {})}
        self._finder = Finder(self._proc, mark)
        self._sampler = Sampler(self._proc)
        self._bursts = Bursts(self._proc)
        self._background: dict[int, list[int]] = {}  # threads by rank's pid
        self.job: Job | None = None
        self.status = 0

    def run(self) -> None:
        self._document = documents.new("profile", ["horovod-opt"])
        self._screen = Screen(self._console) if self._console else None
        self._stats.unlink(missing_ok=True)
        if self._recording:
            self._recording.clear()
        self._began, cpu_before = time.monotonic(), time.process_time()
        self.job = Job(self._command, self._environ, self._proc, self._screen)
        try:
            self._sample()
        finally:
            self._seconds = time.monotonic() - self._began
            self._cpu_seconds = time.process_time() - cpu_before
            self.status = self.job.end()
            if self._screen:
                self._screen.show(None)

    def _sample(self) -> None:
        refresh = drawn_at = self._began
        while self.job.running():
            now, cost = time.monotonic(), time.thread_time()
            if now >= refresh:
                self._finder.scan()
            self._sampler.sample(now, self._finder.ranks.values())
            if now >= refresh:
                refresh = now + REFRESH
                self._look_closely()
                self._find_background()
                if self._screen:
                    self._show(drawn_at, now)
                    drawn_at = now
            if self._bursts.due(now, self._complete()):
                self._bursts.take(self._background)
            else:
                time.sleep(max(self._interval, (time.thread_time() - cost) / BUDGET))

    def _alive(self) -> list:
        return [rank for rank in self._sampler.ranks.values() if not rank.ended]

    def _look_closely(self) -> None:
        threads = [thread for rank in self._alive() for thread in rank.look_closely()]
        for _ in range(LOOKS if threads else 0):
            for thread in threads:
                thread.look_at_wait()
            time.sleep(0.001)

    def _find_background(self) -> None:
        self._background = {}
        for rank in self._alive():
            live = set(rank.live_threads())
            rank.cpus = self._proc.cpus(rank.process.pid) or rank.cpus  # scp changes them
            self._background[rank.process.pid] = [
                thread.tid for thread, name in rank.names().items()
                if self._classes.of(name) == BACKGROUND and thread in live]

    def _complete(self) -> bool:
        """Whether all ranks on this node have a background thread."""
        return bool(self._background) and all(self._background.values())

    def _show(self, since: float, now: float) -> None:
        before = max((number for number, at in enumerate(self._sampler.times) if at <= since),
                     default=0)
        rows = []
        for rank in sorted(self._alive(), key=lambda rank: rank.process.rank or 0):
            usage: dict[str, Usage] = {}
            for thread, name in rank.names().items():
                class_ = self._classes.of(name)
                usage[class_] = usage.get(class_, Usage()) + thread.since(before)
            rows.append((rank, lambda name, usage=usage: usage.get(name, Usage())))
        seconds = now - since
        if rows and seconds > 0:
            most = max(1, self._console.height - 8)
            caption = f"horovod-opt profile, {now - self._began:.0f} s"
            self._screen.show(live_table(rows, seconds, most, platform.node(), caption))

    def document(self, label: str) -> dict:
        ranks = Ranks(self._sampler, self._classes)
        processes = [rank.process for rank in ranks.ranks]
        return {
            **self._document,
            "job": {
                "command": list(self._command), "ranks": len(processes),
                "expected": max((process.size or 1 for process in processes), default=None),
                "exit_status": self.status, "seconds": round(self._seconds, 3),
                "environment": {name: value for name, value in sorted(os.environ.items())
                                if name.startswith(SETTINGS)},
            },
            "label": label, "interval_seconds": self._interval,
            "sampler": {"cpu_percent": round(100 * self._cpu_seconds / self._seconds, 3),
                        "cpu_seconds": round(self._cpu_seconds, 3),
                        "samples": self._sampler.samples,
                        "burst_seconds": round(self._bursts.seconds, 3)},
            **describe(ranks, self._began, self._joined(), self._bursts),
        }

    def write_trace(self, path: Path) -> list[str]:
        """All that was seen as one trace; returns what the user should know."""
        return write_trace(path, Ranks(self._sampler, self._classes), self._bursts.bursts,
                           self._recording)

    def _joined(self) -> dict[int, dict]:
        """The job's own counters, by rank: none of upstream's, or if it did not end well."""
        try:
            stats = json.loads(self._stats.read_text())
            self._stats.unlink()
        except (OSError, ValueError):
            return {}
        return {stats_of_rank["rank"]: stats_of_rank for stats_of_rank in stats}
