"""What the workers share: reports, and Horovod started several times in one process."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import horovod_opt

FOLDER = Path(sys.argv[1])

RANK_VARIABLES = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
RANK = int(next(os.environ[name] for name in RANK_VARIABLES if name in os.environ))

SIZE_VARIABLES = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
SIZE = int(next(os.environ[name] for name in SIZE_VARIABLES if name in os.environ))

HANG_SECONDS = 60  # only a hang takes so long, on however slow and busy a machine

# The stall inspector looks every second, and ends a job in which a tensor waits for so long: a rank
# that is only slow comes before that.
STALL_LIMITS = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1",
                "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "5"}

CONTROLLER = os.environ.get("HOROVOD_CONTROLLER", "mpi")  # which Gloo's launcher names

_MPI_THREAD_MULTIPLE = 3


def report(**values: object) -> None:
    """Writes this rank's report, all at once: a rank may be killed at any time."""
    path = FOLDER / f"rank-{RANK}.json"
    path.with_suffix(".part").write_text(json.dumps(values))
    path.with_suffix(".part").rename(path)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def report_in_any_case() -> None:
    """From now on the launcher cannot end this rank by SIGTERM before it has called report()."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def wait_until(happened: Callable[[], object], what: str) -> None:
    """Raises TimeoutError if it hangs."""
    until = time.monotonic() + HANG_SECONDS
    while not happened():
        if time.monotonic() > until:
            raise TimeoutError(f"rank {RANK} has waited for {HANG_SECONDS} s: {what}")
        time.sleep(0.01)


def touch(name: str) -> None:
    (FOLDER / f"{name}.{RANK}").touch()


def wait_for_ranks(name: str, ranks: Sequence[int]) -> None:
    """Until each of them has called touch()."""
    files = [FOLDER / f"{name}.{rank}" for rank in ranks]
    wait_until(lambda: all(file.exists() for file in files), name)


def meet(name: str) -> None:
    """All ranks, without Horovod; once for each name."""
    touch(name)
    wait_for_ranks(name, range(SIZE))


def wait_for_output(pattern: str) -> None:
    """Until the job has printed it, on whichever rank."""
    output = FOLDER / "output.txt"
    wait_until(lambda: re.search(pattern, output.read_text(errors="replace")), pattern)


def graph_plans() -> list[horovod_opt.PlanStatus]:
    """Without those of calls that recur."""
    return [plan for plan in horovod_opt.plans() if not plan.is_call]


def start_mpi(library: ctypes.CDLL) -> None:
    """Starts MPI before Horovod does.

    MPI starts only once in a process; Horovod ends it at shutdown unless it found it running.
    """
    if CONTROLLER != "mpi":
        return
    provided = ctypes.c_int()
    library.MPI_Init_thread(None, None, _MPI_THREAD_MULTIPLE, ctypes.byref(provided))
    assert provided.value == _MPI_THREAD_MULTIPLE
    atexit.register(library.MPI_Finalize)  # after Horovod's own, which is registered later


@contextlib.contextmanager
def running(hvd, mode: str, process_sets: Sequence = (), **environment: str):
    """Horovod between hvd.init() and hvd.shutdown(), in `mode` and with more variables. topo@1: as
    if each rank had a node of its own; topo/operations: reduced by Horovod's own operations."""
    mode, _, operations = mode.partition("/")
    mode, _, node_ranks = mode.partition("@")
    environment = {"HOROVOD_OPT_MODE": mode, **environment}
    if operations:
        environment["HOROVOD_OPT_SHARED_MEMORY"] = "0"
    if node_ranks:
        environment["HOROVOD_OPT_NODE_RANKS"] = node_ranks
    os.environ.update(environment)
    hvd.init(process_sets=process_sets)
    try:
        yield
    finally:
        hvd.shutdown()
        for name in environment:
            del os.environ[name]
