"""Runs one job of a benchmark and returns its result; ends it when it takes too long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

WORKLOADS = Path(__file__).resolve().parent / "workloads"
STDERR_LINES = 15


class JobFailed(Exception):
    """The job hung, ended with an error, or printed no result; says which and why."""


@dataclass(frozen=True)
class Series:
    """One way to run a workload. `mode` is HOROVOD_OPT_MODE; None is a Horovod that has none."""

    name: str
    mode: str | None = "off"
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)
    communicates: bool = True  # with Horovod
    arguments: Sequence[str] = ()  # for the workload

    def environ(self) -> dict[str, str]:
        environ = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **self.environment}
        if self.mode is None:
            environ = {name: value for name, value in environ.items()
                       if not name.startswith("HOROVOD_OPT_")}
        else:
            environ["HOROVOD_OPT_MODE"] = self.mode
        # horovodrun takes mpirun from the PATH: it has to be the one of the same environment.
        environ["PATH"] = f"{Path(self.python).parent}{os.pathsep}{environ.get('PATH', os.defpath)}"
        return environ

    def commands(self, workload: str, ranks: int, seconds: float, rendezvous: str
                 ) -> list[list[str]]:
        """One command for the launcher or, without communication, one for each process."""
        worker = [self.python, str(WORKLOADS / f"{workload}.py"),
                  "--rendezvous", rendezvous, "--seconds", str(seconds), *self.arguments]
        if self.communicates:
            horovodrun = str(Path(self.python).with_name("horovodrun"))
            return [[horovodrun, "-np", str(ranks), *worker]]
        return [[*worker, "--rank", str(rank), "--ranks", str(ranks)] for rank in range(ranks)]


def run(series: Series, workload: str, ranks: int, seconds: float, timeout: float) -> dict:
    """The line of JSON that rank 0 of the workload prints.

    Raises:
        JobFailed: see there; nothing of the job is left running.
    """
    with tempfile.TemporaryDirectory(prefix="horovod-bench-") as rendezvous:
        output = execute(series.commands(workload, ranks, seconds, rendezvous), series.environ(),
                         timeout)
    return parse_result(output)


def parse_result(output: str) -> dict:
    """The launcher may put the rank before each line, and its own messages between them."""
    for line in output.splitlines():
        start = line.find('{"workload"')
        if start >= 0:
            return json.JSONDecoder().raw_decode(line, start)[0]  # MPICH's prefix may follow it
    raise JobFailed(f"ended without a result; its output was {output!r}")


def execute(commands: Sequence[Sequence[str]], environ: Mapping[str, str], timeout: float) -> str:
    """Runs the commands beside each other and returns their output (stdout).

    Raises:
        JobFailed: one failed, or they took longer than `timeout` seconds.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        processes: list[subprocess.Popen] = []
        try:
            for command in commands:
                processes.append(subprocess.Popen(
                    command, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                    start_new_session=True))
            _wait(processes, timeout)
        except OSError as error:
            raise JobFailed(f"could not be started: {error}") from error
        except JobFailed as failure:
            raise JobFailed(f"{failure}{_last_lines(errors)}") from None
        finally:
            for process in processes:
                _kill(process)
        output.seek(0)
        return output.read()


def _wait(processes: Sequence[subprocess.Popen], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        codes = [process.poll() for process in processes]
        failed = [code for code in codes if code]
        if failed:
            raise JobFailed(f"ended with exit code {failed[0]}")
        if None not in codes:
            return
        if time.monotonic() > deadline:
            raise JobFailed(f"killed: not finished after {timeout:g} s")
        time.sleep(0.05)


def _kill(process: subprocess.Popen) -> None:
    """Ends the process and all below it: an MPI launcher gives its ranks sessions of their own."""
    if process.poll() is not None:
        return
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            pass
    psutil.wait_procs(family, timeout=10)


def _last_lines(errors) -> str:
    errors.seek(0)
    lines = errors.read().splitlines()[-STDERR_LINES:]
    return "".join(f"\n    {line}" for line in lines)
