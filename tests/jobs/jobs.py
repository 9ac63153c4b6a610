"""Starts jobs under horovodrun, ends what is left of them, and keeps what they reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import fork_server
import psutil

BIN = Path(sys.executable).parent
WORKERS = Path(__file__).parent / "workers"
ROOMS = sorted(path for path in WORKERS.iterdir() if path.is_dir() and path.name != "__pycache__")
# Only a hang takes that long, even on a machine that does something else, too.
HANG_SECONDS = 400
MARKER = "PARALLEL_TEST_JOB"
# What workers share, in whichever room they are.
PYTHONPATH = os.pathsep.join(map(str, [WORKERS / "shared" / "start", *ROOMS]))
# What Python and frameworks look at when they are imported.
OF_IMPORTS = {"OMP_NUM_THREADS": "1", "PYTHONPATH": PYTHONPATH, "PYTHONUNBUFFERED": "1",
              "TF_CPP_MIN_LOG_LEVEL": "3"}


@dataclass(frozen=True)
class Job:
    """A job that has ended. `folder` holds what its ranks wrote."""

    folder: Path
    code: int
    output: str
    hung: bool
    survivors: list[str] = field(default_factory=list)

    def reports(self) -> dict[int, dict]:
        """What the ranks reported, by rank; a rank that was killed is missing."""
        files = self.folder.glob("rank-*.json")
        reports = {int(path.stem.split("-")[1]): json.loads(path.read_text()) for path in files}
        return dict(sorted(reports.items()))

    def of_ranks(self, ranks: int) -> list[dict]:
        """What the ranks reported; all of them did."""
        reports = self.reports()
        assert list(reports) == list(range(ranks))
        return list(reports.values())

    def expect_success(self) -> Job:
        assert not self.hung, f"no end:\n{self.output}"
        assert self.code == 0, self.output
        assert not self.survivors, self.survivors
        return self


def inherited() -> dict[str, str]:
    """The variables that a job has of this process: no setting of Horovod's."""
    return {name: text for name, text in os.environ.items() if "HOROVOD" not in name}


@dataclass(frozen=True)
class ForkServers:
    """Of a framework, for all jobs of a run of tests; what they write lies in `folder`."""

    folder: Path
    framework: str
    owner: int  # they end with this process

    def python(self, environment: dict[str, str]) -> list[object]:
        """The command to put before a program, for ranks of a job with these variables."""
        if not fork_server.suits(environment):
            return [sys.executable]
        sockets = fork_server.start(self.folder, self.framework, self.owner,
                                    {**inherited(), **OF_IMPORTS})
        return [sys.executable, "-S", "-E", WORKERS.with_name("forked_rank.py"),
                ":".join(map(str, sockets))]


def rank_lines(folder: Path, ranks: int) -> list[list[dict]]:
    """What each rank of an input job wrote, see workers/input/input_job.py; of one that was killed,
    the lines that it has written whole."""
    texts = [path.read_text() if path.exists() else ""
             for path in (folder / f"lines-{rank}.jsonl" for rank in range(ranks))]
    return [[json.loads(line) for line in text.split("\n")[:-1]] for text in texts]


def worker_file(name: str | Path) -> Path:
    """A program of workers/ by its name, of which there is one; a path as it is."""
    if isinstance(name, Path):
        return name
    (path,) = [room / f"{name}.py" for room in ROOMS if (room / f"{name}.py").is_file()]
    return path


def run_job(
    folder: Path,
    worker: str | Path,
    *arguments: object,
    ranks: int = 2,
    controller: str = "mpi",
    options: tuple[object, ...] = (),
    seconds: float = HANG_SECONDS,
    servers: ForkServers | None = None,
    **environment: str,
) -> Job:
    """Runs workers/*/<worker>.py; its first argument is the folder to report to. A job that takes
    longer than `seconds` hangs. With `servers` its ranks are forked, where they can be."""
    folder.mkdir(parents=True, exist_ok=True)
    marker = uuid.uuid4().hex
    launcher = options or (f"--{controller}", "-np", ranks)
    output = folder / "output.txt"
    with output.open("w") as file:
        process = subprocess.Popen(
            [
                *(BIN / "horovodrun", *map(str, launcher)),
                *map(str, servers.python(environment) if servers else [sys.executable]),
                *map(str, [worker_file(worker), folder, *arguments]),
            ],
            cwd=folder,
            env={
                **inherited(),
                **OF_IMPORTS,
                "HOROVOD_GLOO_TIMEOUT_SECONDS": "60",
                # More ranks than cores, and another job beside this one: modes other than off
                # ask for it themselves, but not before MPI has started.
                "OMPI_MCA_mpi_yield_when_idle": "1",
                # What a killed mpirun leaves ends any later one that gets its process ID.
                "TMPDIR": str(folder),
                MARKER: marker,
                **environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code, hung = process.wait(seconds), False
        except subprocess.TimeoutExpired:
            code, hung = -1, True
        survivors = [] if hung else _wait_for_end(marker)
        for survivor in processes(marker):
            survivor.kill()
        process.wait()
    return Job(folder, code, output.read_text(errors="replace"), hung, survivors)


def mode_settings(mode: str) -> dict[str, str]:
    """topo@1: as if each rank had a node of its own."""
    name, _, node_ranks = mode.partition("@")
    return {"HOROVOD_OPT_MODE": name,
            **({"HOROVOD_OPT_NODE_RANKS": node_ranks} if node_ranks else {})}


def elastic(folder: Path, hosts: str, most: int = 2,
            interface: str | None = "lo") -> tuple[object, ...]:
    """Options of an elastic job of 2 to `most` ranks. `hosts`, lines of name:slots, go to the file
    `hosts` in `folder`, from which Horovod reads them every second: a worker may change it.
    `interface`: None leaves it to Horovod."""
    file, script = folder / "hosts", folder / "hosts.sh"
    file.write_text(hosts)
    script.write_text(f"#!/bin/sh\ncat {file}\n")
    script.chmod(0o755)
    return (
        *("--gloo", "-np", 2, "--min-np", 2, "--max-np", most),
        *(("--network-interfaces", interface) if interface else ()),
        *("--host-discovery-script", script),
    )


def processes(marker: str) -> list[psutil.Process]:
    processes = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == marker:
                processes.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return processes


def _wait_for_end(marker: str) -> list[str]:
    """Command lines of the processes that outlive the launcher by a minute."""
    deadline = time.monotonic() + 60
    while (survivors := processes(marker)) and time.monotonic() < deadline:
        time.sleep(0.1)
    lines = []
    for process in survivors:
        try:
            lines.append(f"{process.pid} {process.status()} {' '.join(process.cmdline())}")
        except psutil.NoSuchProcess:
            continue
    return lines
