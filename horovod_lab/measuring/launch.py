"""Runs processes beside each other; they end when they take too long, or by a signal."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psutil

STDERR_LINES = 15


class JobFailed(Exception):
    """The job hung, ended with an error, or printed no result; says which and why."""


def execute(commands: Sequence[Sequence[str]], environ: Mapping[str, str], timeout: float,
            folder: str | None = None, meanwhile: Iterator[None] = iter(())) -> str:
    """Runs the commands beside each other, in this folder or that of this process, and returns
    their output (stdout). `meanwhile` is taken a step of every 50 ms, while they run.

    Raises:
        JobFailed: one failed, or they took longer than `timeout` seconds.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        processes: list[subprocess.Popen] = []
        try:
            for command in commands:
                processes.append(_start(
                    command, env=environ, cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=errors, start_new_session=True))
            _wait(processes, timeout, meanwhile)
        except JobFailed as failure:
            raise JobFailed(f"{failure}{_last_lines(errors)}") from None
        finally:
            for process in processes:
                _kill(process)
        output.seek(0)
        return output.read()


def _start(command: Sequence[str], **options: Any) -> subprocess.Popen:
    try:
        return subprocess.Popen(command, **options)
    except OSError as error:
        raise JobFailed(f"could not be started: {error}") from error


def _wait(processes: Sequence[subprocess.Popen], timeout: float,
          meanwhile: Iterator[None]) -> None:
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
        next(meanwhile, None)
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


@contextmanager
def end_as_by_ctrl_c() -> Iterator[None]:
    """Meanwhile SIGTERM, and SIGINT also in the background, where shells have it ignored, raise
    KeyboardInterrupt, so that jobs and what was made for them end."""
    before = {ending: signal.signal(ending, signal.default_int_handler)
              for ending in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)
