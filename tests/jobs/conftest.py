"""What the tests under horovodrun share."""

from __future__ import annotations

import functools
import os
import subprocess

import pytest
from jobs import BIN, Job, run_job


@pytest.fixture(scope="session")
def shared_job(need, tmp_path_factory):
    """Runs a job of PyTorch workers once a session, however many tests look at it."""

    @functools.cache
    def shared(worker: str, *arguments: object, framework: str = "torch", **how: object) -> Job:
        need(framework, how.get("controller", "mpi"))
        return run_job(tmp_path_factory.mktemp(worker), worker, *arguments, **how)

    return shared


@pytest.fixture
def job(need, tmp_path):
    """Runs a job of workers, of PyTorch unless it is told, in the test's own folder."""

    def job(worker: str, *arguments: object, framework: str = "torch", **how: object) -> Job:
        need(framework, how.get("controller", "mpi"))
        return run_job(tmp_path, worker, *arguments, **how)

    return job


@pytest.fixture
def one_core():
    """Let this thread, and with it the jobs it starts, have one core."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    yield
    os.sched_setaffinity(0, cpus)


@pytest.fixture(params=["mpi", "gloo"])
def controller(request, need) -> str:
    need(request.param)
    return f"--{request.param}"


@pytest.fixture
def mpi(need) -> str:
    """What the environment's mpirun says of its version."""
    need("mpi")
    mpirun = BIN / "mpirun"
    command = str(mpirun) if mpirun.exists() else "mpirun"
    return subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout
