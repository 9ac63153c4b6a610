"""Runs one suite as a job, ends it when it takes too long, and reads what its ranks wrote."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from outcomes import RankLog, Run, merge
from suites import Suite

HERE = Path(__file__).resolve().parent
# As horovodrun, but does not import every framework before each job.
HOROVODRUN = HERE.parent / "parallel" / "workers" / "horovodrun.py"
MARKER = "UPSTREAM_SUITES_JOB"
TAIL_LINES = 40
STACKS_SECONDS = 120  # a test that takes longer writes the stacks of its threads


@dataclass(frozen=True)
class Column:
    """What a suite is run with. `mode` is HOROVOD_OPT_MODE; None is a Horovod that has none."""

    name: str
    python: str
    mode: str | None
    ranks: int

    def environ(self) -> dict[str, str]:
        """The shell's, without Horovod's settings; of ours, HOROVOD_OPT_* but the mode stay."""
        kept = {name: text for name, text in os.environ.items()
                if "HOROVOD" not in name or (self.mode and name.startswith("HOROVOD_OPT_"))}
        environ = {
            "OMP_NUM_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **kept,
            "PYTHONDONTWRITEBYTECODE": "1",
            # horovodrun takes mpirun, and upstream's tests take python, from the PATH.
            "PATH": f"{Path(self.python).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }
        if self.mode:
            environ["HOROVOD_OPT_MODE"] = self.mode
        return environ


@dataclass(frozen=True)
class Job:
    """A suite to run, where upstream's tests are, and `mpi` or `gloo`."""

    suite: Suite
    column: Column
    checkout: Path
    controller: str

    def command(self, folder: Path) -> list[str]:
        file = self.checkout / "test" / self.suite.file
        pytest = [self.column.python, str(HERE / "rank.py"), str(folder), "-v", "--color=no",
                  "-p", "no:cacheprovider", "--continue-on-collection-errors",
                  "-o", f"faulthandler_timeout={STACKS_SECONDS}",
                  f"--rootdir={self.checkout}", str(file)]
        if not self.suite.launched:
            return pytest
        return [self.column.python, str(HOROVODRUN), f"--{self.controller}",
                "-np", str(self.column.ranks), *pytest]

    def run(self, folder: Path, seconds: float, tick: Callable[[int], None]) -> Run:
        """Runs the suite; `folder` is emptied and keeps the ranks' output.

        Calls `tick` twice a second with the number of outcomes that rank 0 has so far.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        started = time.monotonic()
        cut = self._execute(folder, seconds, tick)
        logs = [RankLog.read(folder / f"rank-{rank}.jsonl")
                for rank in range(self.column.ranks if self.suite.launched else 1)]
        if not cut and not all(log.ended for log in logs):
            cut = "the job ended early"
        return Run(merge(logs, cut), round(time.monotonic() - started, 1), cut,
                   _tail(folder) if cut else "")

    def _execute(self, folder: Path, seconds: float, tick: Callable[[int], None]) -> str:
        marker = uuid.uuid4().hex
        with (folder / "job.txt").open("w") as output:
            process = subprocess.Popen(
                self.command(folder), cwd=(self.checkout / "test" / self.suite.file).parent,
                env={**self.column.environ(), **self.suite.environment, MARKER: marker},
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True)
            try:
                deadline = time.monotonic() + seconds
                while process.poll() is None and time.monotonic() < deadline:
                    tick(len(RankLog.read(folder / "rank-0.jsonl").outcomes))
                    time.sleep(0.5)
                if process.poll() is None:
                    return f"no end after {seconds:g} s"
                return f"the job ended with exit code {process.poll()}" if process.poll() else ""
            finally:
                _kill(marker)
                process.wait()


def _kill(marker: str) -> None:
    """Ends every process of the job, also those that a launcher gave a session of their own."""
    while left := [process for process in psutil.process_iter() if _belongs(process, marker)]:
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=1)


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
