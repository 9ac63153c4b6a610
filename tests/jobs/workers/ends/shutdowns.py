"""In each mode, what calls of PyTorch get when Horovod shuts down, and what is left of it.

Every case ends with Horovod shut down; reports the outcome of each by "mode case". Arguments: modes
in one word, and which cases (those of three ranks).
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable

import horovod.torch as hvd
import torch
from common import (
    FOLDER,
    RANK,
    STALL_LIMITS,
    report,
    running,
    start_mpi,
    touch,
    wait_for_ranks,
    wait_until,
)
from horovod.torch.mpi_ops import _basics

ONE = torch.ones(1)
LIVES, STARTS = 12, 50


def error_of(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition('.')[0]}"
    return ""


def until_error(name: str, **how: object) -> str:
    """What ends repeated calls."""
    while True:
        if error := error_of(lambda: hvd.allreduce(ONE, name=name, **how)):
            return error


def begin_anew(mode: str) -> float:
    """The sum of the ranks' numbers; no name, so that it is a counter's."""
    with running(hvd, mode):
        return hvd.allreduce(torch.tensor([1.0 + RANK]), op=hvd.Sum).item()


def joined(mode: str) -> dict:
    """Ranks 1 and 2 have joined when rank 0 shuts down."""
    with running(hvd, mode):
        error = ""
        if RANK == 0:
            # They take part with zeros, so they have joined when it ends.
            hvd.allreduce(ONE, name="without them")
        else:
            error = error_of(hvd.join)
    return {"error": error, "sum": begin_anew(mode)}


def waiting(mode: str) -> dict:
    """Another thread of rank 0 shuts down while this one waits."""
    with running(hvd, mode):
        handle = hvd.allreduce_async(ONE, name=f"alone {RANK}")
        hvd.allreduce(ONE, name="met")  # all have called it
        if RANK == 0:
            thread = threading.Timer(0.3, hvd.shutdown)
            thread.start()
        error = error_of(lambda: hvd.synchronize(handle))
        if RANK == 0:
            thread.join()
    return {"error": error, "sum": begin_anew(mode)}


def handles(mode: str) -> dict:
    """Those that nobody has waited for, a different number on each rank."""
    with running(hvd, mode):
        old = [hvd.allreduce_async(ONE, name=f"alone {RANK} {i}") for i in range(1 + RANK)]
        hvd.allreduce(ONE, name="met")
    with running(hvd, mode):
        new = hvd.allreduce_async(torch.tensor([1.0 + RANK]), op=hvd.Sum)
        errors = [error_of(lambda handle=handle: hvd.synchronize(handle)) for handle in old]
        total = hvd.synchronize(new)
    return {"errors": errors, "sum": total.item() if total is not None else None}


def process_set(mode: str) -> dict:
    """Rank 0 shuts down; the others, who have a process set, call what there is."""
    both = hvd.ProcessSet([1, 2])
    errors = {}
    with running(hvd, mode, [both]):
        hvd.allreduce(ONE, name="met")
        if RANK > 0:
            until_error("until", process_set=both)
            for name, call in {
                "allreduce": lambda: hvd.allreduce(ONE, process_set=both),
                "grouped": lambda: hvd.grouped_allreduce([ONE, ONE], process_set=both),
                "allgather": lambda: hvd.allgather(ONE, process_set=both),
                "broadcast": lambda: hvd.broadcast(ONE, 1, process_set=both),
                "alltoall": lambda: hvd.alltoall(torch.ones(2), process_set=both),
                "reducescatter": lambda: hvd.reducescatter(torch.ones(2), process_set=both),
                "barrier": lambda: hvd.barrier(process_set=both),
                "join": hvd.join,
            }.items():
                errors[name] = error_of(call)
            errors["set"] = [both.size(), both.rank(), both.included()]
    return {"seen": errors, "sum": begin_anew(mode)}


def stalled_set(mode: str) -> dict:
    """Rank 2 stays away from a tensor of its process set, to which rank 0 does not belong."""
    both = hvd.ProcessSet([1, 2])
    ended = f"ended-{mode}"
    with running(hvd, mode, [both], **STALL_LIMITS):
        hvd.allreduce(ONE, name="met")
        if RANK == 1:
            error = error_of(lambda: hvd.allreduce(ONE, name="in the set", process_set=both))
            touch(ended)
        else:
            wait_for_ranks(ended, [1])
            error = until_error("in all")
    return {"error": error, "sum": begin_anew(mode)}


def several_threads(mode: str) -> dict:
    """Threads call without end, in a process set, too; two threads of one rank shut down."""
    errors = set()
    for life in range(LIVES):
        both = hvd.ProcessSet([0, 1])
        ends: list[str] = []
        with running(hvd, mode, [both]):
            hvd.allreduce(ONE, name="met")
            threads = [threading.Thread(target=lambda name=name: ends.append(until_error(name)))
                       for name in ("first", "second")]
            if RANK < 2:
                threads.append(threading.Thread(
                    target=lambda: ends.append(until_error("set", process_set=both))))
            if life % 3 == RANK:
                threads += [threading.Thread(target=lambda: (time.sleep(0.05), hvd.shutdown()))
                            for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        errors.update(ends)
    return {"errors": sorted(errors), "sum": begin_anew(mode)}


def settings(mode: str) -> dict:
    """Those of the first life are not in the environment of the second."""
    with running(hvd, mode, HOROVOD_FUSION_THRESHOLD="0", HOROVOD_CYCLE_TIME="5"):
        hvd.allreduce(ONE, name="met")
    timeline = FOLDER / f"timeline-{mode}.json"
    with running(hvd, mode, HOROVOD_TIMELINE=str(timeline)):
        for step in range(50):
            hvd.grouped_allreduce([ONE, ONE], name=f"group {step}")
    return {"fuses": RANK == 0 and "MEMCPY_IN_FUSION_BUFFER" in timeline.read_text()}


def early(mode: str) -> dict:
    """Rank 0 shuts down while the others still call."""
    error = ""
    with running(hvd, mode):
        for _ in range(100 if RANK else 5):
            if error := error_of(lambda: hvd.allreduce(torch.ones(4), name="step")):
                break
            time.sleep(0.01)
    return {"error": error}


def restarts(mode: str) -> dict:
    """Many lives in one process, of any number of ranks; the threads that are there after each."""
    sums, threads = [], []
    for start in range(STARTS):
        with running(hvd, mode):
            sums.append(hvd.allreduce(torch.tensor([start]), op=hvd.Sum).item())
        threads.append(count_threads())
    # One that has ended may still be listed for a moment.
    wait_until(lambda: count_threads() <= threads[4], f"no more than {threads[4]} threads")
    return {"sums": sums, "threads": [*threads[:-1], count_threads()]}


def count_threads() -> int:
    return len(os.listdir("/proc/self/task"))


CASES = (joined, waiting, handles, process_set, stalled_set, several_threads, settings)
ON_REQUEST = (early, restarts)

faulthandler.dump_traceback_later(120)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
modes = sys.argv[2].split()
names = sys.argv[3:] or [case.__name__ for case in CASES]
outcomes = {}
for mode in modes:
    for case in CASES + ON_REQUEST:
        if case is settings and mode != modes[0]:
            continue  # read by every hvd.init(), whatever the mode
        if case.__name__ in names:
            outcomes[f"{mode} {case.__name__}"] = case(mode)
            report(**outcomes)
