"""Runs one suite as a job, ends it when it takes too long, and reads what its ranks wrote.

A test in which all ranks stand still has failed, and another job runs those after it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from outcomes import Outcome, RankLog, Run, merge
from suites import Suite

HERE = Path(__file__).resolve().parent
HOROVODRUN = HERE / "horovodrun.py"
MARKER = "UPSTREAM_SUITES_JOB"
TAIL_LINES = 40
STACKS_SECONDS = 80  # a test that takes longer writes the stacks of its threads
LOOK_SECONDS = 0.5
# Looks in a row, at ranks that all have begun, in which no test begins or ends: more than the
# longest takes on a busy machine, 83 s for TensorFlow's broadcasts in place. Looks are counted, and
# not seconds, as a machine that stands for a while stops all alike.
STILL_LOOKS = 600
STOOD_STILL = "all ranks stood still"


@dataclass(frozen=True)
class Column:
    """What a suite is run with. `mode` is HOROVOD_OPT_MODE; None is a Horovod that has none."""

    name: str
    python: str
    mode: str | None
    ranks: int

    def environ(self) -> dict[str, str]:
        """The shell's, without Horovod's settings; of ours, HOROVOD_OPT_* but the mode stay."""
        inherited = {name: text for name, text in os.environ.items()
                     if "HOROVOD" not in name or (self.mode and name.startswith("HOROVOD_OPT_"))}
        environ = {
            "OMP_NUM_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **inherited,
            "PYTHONDONTWRITEBYTECODE": "1",
            # horovodrun takes mpirun, and upstream's tests take python, from the PATH.
            "PATH": f"{Path(self.python).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }
        if self.mode:
            environ["HOROVOD_OPT_MODE"] = self.mode
        return environ


@dataclass(frozen=True)
class Job:
    """A suite to run, the folder that its file is below, and `mpi` or `gloo`."""

    suite: Suite
    column: Column
    tests: Path
    controller: str

    def command(self, folder: Path) -> list[str]:
        selected = ["-k", self.suite.selected] if self.suite.selected else []
        pytest = [self.column.python, str(HERE / "rank.py"), str(folder), "-v", "--color=no",
                  "-p", "no:cacheprovider", "--continue-on-collection-errors",
                  "-o", f"faulthandler_timeout={STACKS_SECONDS}",
                  f"--rootdir={self.tests.parent}", *selected, str(self.tests / self.suite.file)]
        if not self.suite.launched:
            return pytest
        return [self.column.python, str(HOROVODRUN), f"--{self.controller}",
                "-np", str(self.column.ranks), *pytest]

    def run(self, folder: Path, seconds: float, tick: Callable[[int], None]) -> Run:
        """Runs the suite; `folder` is emptied and keeps the ranks' output.

        Calls `tick` at each look with the number of outcomes that rank 0 has so far.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        started = time.monotonic()
        tests: dict[str, Outcome] = {}
        for number in itertools.count(1):
            part = folder / f"part-{number}"
            part.mkdir()
            (part / "done.json").write_text(json.dumps([*tests]))
            cut = self._execute(
                part, seconds, lambda more, before=len(tests): tick(before + more))
            logs = [RankLog.read(path) for path in self._log_files(part)]
            if not cut and not all(log.ended for log in logs):
                cut = "the job ended early"
            if tests and not cut and not any(log.outcomes for log in logs):
                break  # it was the last test in which they stood still
            tests |= merge(logs, cut)
            if cut != STOOD_STILL or not any(log.running for log in logs):
                break
        return Run(tests, round(time.monotonic() - started, 1), cut, _tail(part) if cut else "")

    def _log_files(self, folder: Path) -> list[Path]:
        return [folder / f"rank-{rank}.jsonl"
                for rank in range(self.column.ranks if self.suite.launched else 1)]

    def _execute(self, folder: Path, seconds: float, tick: Callable[[int], None]) -> str:
        marker = uuid.uuid4().hex
        with (folder / "job.txt").open("w") as output:
            process = subprocess.Popen(
                self.command(folder), cwd=(self.tests / self.suite.file).parent,
                env={**self.column.environ(), **self.suite.environment, MARKER: marker},
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True)
            try:
                begun = time.monotonic()
                written, still = [0], 0
                while process.poll() is None:
                    if time.monotonic() >= begun + seconds:
                        return f"no end after {seconds:g} s"
                    before, written = written, list(map(_size, self._log_files(folder)))
                    still = still + 1 if written == before and all(written) else 0
                    if self.suite.launched and still == STILL_LOOKS:
                        return STOOD_STILL
                    tick(len(RankLog.read(folder / "rank-0.jsonl").outcomes))
                    time.sleep(LOOK_SECONDS)
                return f"the job ended with exit code {process.poll()}" if process.poll() else ""
            finally:
                kill_marked(marker)
                process.wait()


def _size(path: Path) -> int:
    """Bytes; 0 where there is no file yet."""
    return path.stat().st_size if path.exists() else 0


def kill_marked(marker: str) -> None:
    """Ends every process of the job, also those that a launcher gave a session of their own."""
    while processes := _of_job(marker):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=1)


def _of_job(marker: str) -> list[psutil.Process]:
    """Those with the marker, and what they have started: Ray's workers write their name over it."""
    processes = [process for process in psutil.process_iter() if _belongs(process, marker)]
    for process in processes[:]:
        with contextlib.suppress(psutil.NoSuchProcess):
            processes += process.children(recursive=True)
    return processes


def _belongs(process: psutil.Process, marker: str) -> bool:
    try:
        return process.environ().get(MARKER) == marker
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _tail(folder: Path) -> str:
    """The last lines of the launcher and of every rank."""
    parts = []
    for path in sorted(folder.glob("*.txt")):
        lines = path.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        parts += [f"--- {path.name}", *lines]
    return "\n".join(parts)
