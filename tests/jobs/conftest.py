"""What the tests under horovodrun share."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from jobs import BIN, ForkServers, Job, run_job


@pytest.fixture(scope="session")
def servers(tmp_path_factory) -> Callable[[str], ForkServers]:
    """Of a framework. All processes of a run of tests share them."""
    folder, owner = tmp_path_factory.getbasetemp(), os.getpid()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder, owner = folder.parent, os.getppid()
    (folder / "servers").mkdir(exist_ok=True)
    return functools.partial(ForkServers, folder / "servers", owner=owner)


@pytest.fixture(scope="session")
def shared_job(need, servers, tmp_path_factory):
    """Runs a job of PyTorch workers once a session, however many tests look at it."""

    @functools.cache
    def shared(worker: str, *arguments: object, framework: str = "torch", **how: object) -> Job:
        need(framework, how.get("controller", "mpi"))
        folder = tmp_path_factory.mktemp(worker)
        return run_job(folder, worker, *arguments, servers=servers(framework), **how)

    return shared


@pytest.fixture
def job(need, servers, tmp_path):
    """Runs a job of workers, of PyTorch unless it is told, in the test's own folder. `started`:
    each rank is a process of the launcher, as users' are, for tests of how processes end."""

    def job(worker: str | Path, *arguments: object, framework: str = "torch", started: bool = False,
            **how: object) -> Job:
        need(framework, how.get("controller", "mpi"))
        return run_job(tmp_path, worker, *arguments,
                       servers=None if started else servers(framework), **how)

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
