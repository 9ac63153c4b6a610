"""`horovod-opt profile` of real jobs: what it finds, and that it leaves the job as it is."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from events import wait_until
from jobs import BIN, HANG_SECONDS, MARKER, worker_file

LAUNCHER = (str(BIN / "horovodrun"), "-np", "2")
WORKER = (sys.executable, str(worker_file("profile_work")))
# The command, behind three arguments: a file that it touches when it has seen enough of a job, of
# how many ranks, and whether that includes their `cycles`, and most of what background threads have
# used until then in mode off.
COMMAND = """
import sys
from pathlib import Path
from horovod_lab.profile.classes import BACKGROUND
from horovod_lab.profile.record import Ranks, describe
from horovod_lab.profile.run_profile import Profile
from horovod_opt import cli

seen, number, looks_for = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
del sys.argv[1:4]
find_background = Profile._find_background

def is_enough(profile):
    ranks = Ranks(profile._sampler, profile._classes)
    document = describe(ranks, profile._began, {}, profile._bursts)
    if len(ranks.ranks) < number:
        return False
    for rank, described in zip(ranks.ranks, document["ranks"]):
        usage = described["classes"][BACKGROUND]
        used = sum([*thread.series.values()][-1].cpu for thread in ranks.of_class(rank, BACKGROUND))
        least = 0.5 * used if looks_for == "cycles" and described["mode"] == "off" else 0
        if usage["user_seconds"] + usage["system_seconds"] <= least:
            return False
    return looks_for != "cycles" or has_cycles(document["cycles"])

def has_cycles(cycles):
    return cycles and all(cycles["wakeups_per_second"].values()) and {"running", "asleep"} <= {
        state for window in cycles["bursts"] for timeline in window["ranks"].values()
        for _, _, state in timeline}

def find_and_judge(profile):
    find_background(profile)
    if not seen.exists() and is_enough(profile):
        profile._bursts.due = lambda now, complete: False
        seen.touch()

Profile._find_background = find_and_judge
sys.exit(cli.main())
"""


@dataclass(frozen=True)
class Profiled:
    code: int
    output: str
    errors: str
    document: dict
    pictures: set[str]


def run_profile(folder: Path, *command: str, ranks: int = 2, looks_for: str = "ranks",
                meanwhile: Callable = lambda process: None, terminal: bool = False,
                **environment: str) -> Profiled:
    """A profile until the job ends, of which it leaves no process. `meanwhile` may do something to
    the profile's. `ranks`, `looks_for`: see COMMAND."""
    marker = uuid.uuid4().hex
    inherited = {name: text for name, text in os.environ.items() if "HOROVOD" not in name}
    output, errors = folder / "output.txt", folder / "errors.txt"
    with output.open("wb") as out, errors.open("wb") as err:
        terminal_end, job_end = pty.openpty() if terminal else (None, None)
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, folder / "seen", str(ranks), looks_for, "profile",
             "--output", folder / "profile", "--interval", "0.1", "--", *command],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=job_end or err,
            env={**inherited, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
                 "TMPDIR": str(folder),  # see jobs.py
                 "HOROVOD_GLOO_TIMEOUT_SECONDS": str(HANG_SECONDS),
                 "TERM": "xterm", "COLUMNS": "120", "LINES": "40", MARKER: marker, **environment})
        try:
            if terminal:
                os.close(job_end)
                copy(terminal_end, err)
            meanwhile(process)
            code = process.wait(HANG_SECONDS)
            wait_until(lambda: not marked(marker))  # who was killed may need a moment to end
        finally:
            for pid in marked(marker):
                os.kill(pid, signal.SIGKILL)
    file = folder / "profile" / "profile.json"
    return Profiled(
        code, output.read_text(), errors.read_text(),
        json.loads(file.read_text()) if file.exists() else {},
        {path.stem for path in file.parent.glob("*.png")})


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
    profile = run_profile(tmp_path, *LAUNCHER, f"--{controller}", *WORKER, str(tmp_path), "ends",
                          looks_for="cycles", HOROVOD_OPT_MODE=mode)
    assert profile.code == 0, profile.errors
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
        # The job's own account begins before the thread was first seen, and closes before its end.
        background, process = (
            rank["stats"][f"{of}_user_seconds"] + rank["stats"][f"{of}_system_seconds"]
            for of in ("background", "process"))
        after = float((tmp_path / f"cpu-{number}").read_text()) - process
        cpu_seconds = background + max(after, 0.0)
        assert cpu(rank, "background thread") < cpu_seconds + 0.1
        assert mode == "topo" or cpu(rank, "background thread") > 0.3 * background
    cycles = document["cycles"]
    assert all(rate > 0 for rate in cycles["wakeups_per_second"].values())
    assert {state for window in cycles["bursts"] for timeline in window["ranks"].values()
            for _, _, state in timeline} >= {"running", "asleep"}
    assert profile.pictures == {"background", "classes", "cycles", "oversleeps"}


def test_a_rank_is_killed(need, tmp_path):
    need("torch", "mpi")
    profile = run_profile(tmp_path, *LAUNCHER, "--mpi", *WORKER, str(tmp_path), "killed")
    assert profile.code == 2
    status = profile.document["job"]["exit_status"]
    assert status != 0
    assert f"the job ended with exit status {status}; what was sampled" in profile.errors
    assert [rank["stats"] for rank in profile.document["ranks"]] == [None, None]
    assert all(cpu(rank, "background thread") > 0 for rank in profile.document["ranks"])


def test_interrupted(need, tmp_path):
    need("torch", "mpi")

    def interrupt(process: subprocess.Popen) -> None:
        wait_until(lambda: (tmp_path / "seen").exists() or process.poll() is not None, HANG_SECONDS)
        process.send_signal(signal.SIGINT)

    profile = run_profile(tmp_path, *LAUNCHER, "--mpi", *WORKER, str(tmp_path), "stays",
                          meanwhile=interrupt)
    assert profile.code == 130, profile.errors
    assert len(profile.document["ranks"]) == 2
    assert "background" in profile.pictures


def test_one_process_under_a_live_table(need, tmp_path):
    """Without a launcher."""
    need("torch", "mpi")
    profile = run_profile(tmp_path, *WORKER, str(tmp_path), "fails", ranks=1, terminal=True)
    assert profile.code == 2, profile.errors
    assert profile.document["job"]["exit_status"] == 3
    assert profile.output == "rank 0 to stdout\n"
    assert "rank 0 to stderr" in profile.errors
    assert "horovod-opt profile, " in profile.errors and "\x1b[J" in profile.errors
    rank, = profile.document["ranks"]
    assert rank["rank"] == 0 and profile.document["job"]["expected"] == 1
