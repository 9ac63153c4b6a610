"""`horovod-opt profile` of real jobs: what it finds, and that it leaves the job as it is."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from jobs import BIN, HANG_SECONDS, MARKER, worker_file

LAUNCHER = (str(BIN / "horovodrun"), "-np", "2")
WORKER = (sys.executable, str(worker_file("profile_work")))


@dataclass(frozen=True)
class Profiled:
    code: int
    output: str
    errors: str
    document: dict
    pictures: set[str]
    survivors: list[int]  # processes


def run_profile(folder: Path, *command: str, meanwhile: Callable = lambda process, output: None,
                terminal: bool = False, **environment: str) -> Profiled:
    """`meanwhile` may do something to profile's process, with the file that its output goes to."""
    marker = uuid.uuid4().hex
    inherited = {name: text for name, text in os.environ.items() if "HOROVOD" not in name}
    output, errors = folder / "output.txt", folder / "errors.txt"
    with output.open("wb") as out, errors.open("wb") as err:
        terminal_end, job_end = pty.openpty() if terminal else (None, None)
        process = subprocess.Popen(
            [sys.executable, "-m", "horovod_opt.cli", "profile", "--output", folder / "profile",
             "--interval", "0.1", "--", *command],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=job_end or err,
            env={**inherited, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
                 "TMPDIR": str(folder),  # see jobs.py
                 "TERM": "xterm", "COLUMNS": "120", "LINES": "40", MARKER: marker, **environment})
        try:
            if terminal:
                os.close(job_end)
                copy(terminal_end, err)
            meanwhile(process, output)
            code = process.wait(HANG_SECONDS)
            processes = marked(marker)
        finally:
            for pid in marked(marker):
                os.kill(pid, signal.SIGKILL)
    file = folder / "profile" / "profile.json"
    return Profiled(
        code, output.read_text(), errors.read_text(),
        json.loads(file.read_text()) if file.exists() else {},
        {path.stem for path in file.parent.glob("*.png")}, processes)


def copy(terminal: int, file) -> None:
    """Until nobody writes to it any more, which Linux reports as an error."""
    try:
        while data := os.read(terminal, 65536):
            file.write(data)
    except OSError:
        pass
    os.close(terminal)


def marked(marker: str) -> list[int]:
    processes = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == marker:
                processes.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return processes


def cpu(rank: dict, name: str) -> float:
    return rank["classes"][name]["user_seconds"] + rank["classes"][name]["system_seconds"]


@pytest.mark.parametrize("mode, controller", [("off", "mpi"), ("topo", "gloo")])
def test_two_ranks(need, tmp_path, mode, controller):
    need("torch", controller)
    profile = run_profile(tmp_path, *LAUNCHER, f"--{controller}", *WORKER, "7", "ends",
                          HOROVOD_OPT_MODE=mode)
    assert profile.code == 0, profile.errors
    assert not profile.survivors
    for rank in ("0", "1"):
        assert f"rank {rank} to stdout" in profile.output
        assert f"rank {rank} to stderr" in profile.errors
    assert "profile" not in profile.output
    assert "What the background thread cost" not in profile.errors
    document = profile.document
    assert (document["job"]["ranks"], document["job"]["expected"]) == (2, 2)
    assert 0 < document["sampler"]["cpu_percent"]
    for number, rank in enumerate(document["ranks"]):
        assert (rank["rank"], rank["local_rank"], rank["mode"]) == (number, number, mode)
        assert rank["stats"]["rank"] == number
        assert rank["threads"]["@main"] == 1 and rank["threads"]["hvd-background"] == 1
        assert ("hvd-planned" in rank["threads"]) == (mode == "topo")
        assert cpu(rank, "Python main") > 0
        # The job's own account goes on to the end, and begins before the thread was first seen.
        cpu_seconds = (rank["stats"]["background_user_seconds"]
                       + rank["stats"]["background_system_seconds"])
        assert cpu(rank, "background thread") < cpu_seconds + 0.1
        assert mode == "topo" or cpu(rank, "background thread") > 0.3 * cpu_seconds
    cycles = document["cycles"]
    assert all(rate > 0 for rate in cycles["wakeups_per_second"].values())
    assert {state for window in cycles["bursts"] for timeline in window["ranks"].values()
            for _, _, state in timeline} >= {"running", "asleep"}
    assert profile.pictures == {"background", "classes", "cycles", "oversleeps"}


def test_a_rank_is_killed(need, tmp_path):
    need("torch", "mpi")
    profile = run_profile(tmp_path, *LAUNCHER, "--mpi", *WORKER, "4", "killed")
    assert profile.code == 2
    status = profile.document["job"]["exit_status"]
    assert status != 0
    assert f"the job ended with exit status {status}; what was sampled" in profile.errors
    assert not profile.survivors
    assert [rank["stats"] for rank in profile.document["ranks"]] == [None, None]
    assert all(cpu(rank, "background thread") > 0 for rank in profile.document["ranks"])


def interrupt(process: subprocess.Popen, output: Path) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while "rank 0 to stdout" not in output.read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(2)
    process.send_signal(signal.SIGINT)


def test_interrupted(need, tmp_path):
    need("torch", "mpi")
    profile = run_profile(tmp_path, *LAUNCHER, "--mpi", *WORKER, "100", "ends", meanwhile=interrupt)
    assert profile.code == 130, profile.errors
    assert not profile.survivors
    assert len(profile.document["ranks"]) == 2
    assert "background" in profile.pictures


def test_one_process_under_a_live_table(need, tmp_path):
    """Without a launcher."""
    need("torch", "mpi")
    profile = run_profile(tmp_path, *WORKER, "4", "fails", terminal=True)
    assert profile.code == 2, profile.errors
    assert profile.document["job"]["exit_status"] == 3
    assert profile.output == "rank 0 to stdout\n"
    assert "rank 0 to stderr" in profile.errors
    assert "horovod-opt profile, " in profile.errors and "\x1b[J" in profile.errors
    rank, = profile.document["ranks"]
    assert rank["rank"] == 0 and profile.document["job"]["expected"] == 1
