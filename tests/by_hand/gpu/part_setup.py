"""What a part of a run is given, how it runs jobs, and what it says of one that went wrong."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from jobs import PYTHONPATH, Job, run_job

HERE = Path(__file__).parent
WORKERS = HERE / "workers"
BENCH_WORKERS = HERE.parents[2] / "horovod_lab" / "bench" / "workers"
NO_LIBRARY = "-"


class NoTime(Exception):
    """The time of the run is over."""


@dataclass(frozen=True)
class Setup:
    """`build`: as in gpu_builds.py. `gpus`: their number; 0: tensors are in main memory, and the
    events that say when their data is there are made by `library` (tests/binding/late_data.cc).
    `until`: when the time of the run is over, of time.monotonic()."""

    build: str
    folder: Path
    gpus: int
    cores: int
    steps: int
    seconds: float  # of a measurement
    rounds: int
    batch: int
    until: float
    library: str = NO_LIBRARY

    def job(self, name: str, worker: str, *arguments: object, ranks: int, controller: str = "mpi",
            **environment: str) -> Job:
        """Raises NoTime."""
        seconds_left = self.until - time.monotonic()
        if seconds_left < 1:
            raise NoTime
        path = os.pathsep.join([PYTHONPATH, str(WORKERS), str(BENCH_WORKERS)])
        return run_job(self.folder / name, WORKERS / f"{worker}.py", *arguments, ranks=ranks,
                       controller=controller, seconds=seconds_left, PYTHONPATH=path, **environment)


def problem(job: Job, ranks: int) -> str:
    """Why the job is no success of all its ranks; empty: it is."""
    file = job.folder / "output.txt"
    if job.hung:
        return f"no end; see {file}"
    if job.code != 0 or len(job.reports()) != ranks:
        return f"exit status {job.code}, {len(job.reports())} of {ranks} reports; see {file}"
    return f"{len(job.survivors)} processes are left" if job.survivors else ""
