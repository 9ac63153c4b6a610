"""Runs, in one mode, the parts of Horovod that watch the background thread: timeline, stall
inspector and autotune; reports what the ranks got.
"""

import sys

import horovod.torch as hvd
import torch
from common import FOLDER, RANK, STALL_LIMITS, report, running, start_mpi, wait_for_output
from horovod.torch.mpi_ops import _basics

TRACED_STEPS, TUNED_STEPS = 20, 200
# What JSON writes in another way; each is a track of the timeline.
NAMES = ['a"b', "a\\b", "a\\", '"', "a\nb", "a\tb", "\x01\x1f\x7f", "\r\b\f", "ünï/→ 🚀", " ",
         "%s{}[],:", "\\u0041", "x" * 5000]
TUNING = {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": str(FOLDER / "autotune.csv")}
TIMELINE = {
    "HOROVOD_TIMELINE": str(FOLDER / "timeline.json"),
    "HOROVOD_TIMELINE_MARK_CYCLES": "1",
    "HOROVOD_OPT_TIMELINE_RANKS": "1",
    "HOROVOD_OPT_STATS_FOLDER": str(FOLDER / "counters"),
    "HOROVOD_OPT_STATS_INTERVAL_MS": "10",
}


def sums(*names: str, size: int = 1) -> list[float]:
    """The first number of each tensor; all are under way at once."""
    handles = [
        hvd.allreduce_async(torch.full((size,), float(RANK + i)), name=name, op=hvd.Sum)
        for i, name in enumerate(names)
    ]
    return [hvd.synchronize(handle)[0].item() for handle in handles]


def late_sums() -> list[float]:
    """Rank 1 comes late with a tensor that is in the response cache and with one that is not."""
    sums("late.cached")
    if RANK == 1:
        for name in "cached", "new":
            wait_for_output(rf"\b1!?: \[[^\]]*allreduce\.late\.{name}\b")
    return sums("late.cached", "late.new")


def joined_sums() -> list[float]:
    """Rank 1 has more steps than rank 0, which joins and adds zeros."""
    steps = [sums("uneven.0", "uneven.1") for _ in range(10 + 10 * RANK)]
    hvd.join()
    return steps[-1]


def grouped_sums() -> list[list[float]]:
    """The first number of each tensor of two groups and of one by itself, which are under way at
    once: with all ranks, with rank 1 alone, and with all again."""
    def step() -> list[float]:
        first, second, third, alone = (torch.full((size,), float(RANK + size), dtype=torch.float64)
                                       for size in (179, 38, 77, 5))
        handles = [hvd.grouped_allreduce_async([first, second], name="grouped.0", op=hvd.Sum),
                   hvd.grouped_allreduce_async([third], name="grouped.1", op=hvd.Sum),
                   hvd.allreduce_async(alone, name="grouped.2", op=hvd.Sum)]
        results = [hvd.synchronize(handle) for handle in handles]
        return [tensor[0].item() for tensor in (*results[0], *results[1], results[2])]

    steps = [step() for _ in range(10 + 10 * RANK)]
    hvd.join()
    return [steps[9], steps[-1], [step() for _ in range(10)][-1]]


def refused_calls() -> list[str]:
    """Calls that all ranks have made before: what rank 1 gets for each when rank 0 has joined; and
    then, from all ranks again."""
    calls = {"allgather": lambda: hvd.allgather(torch.ones(3), name="refused.0"),
             "alltoall": lambda: hvd.alltoall(torch.ones(4), name="refused.1")}

    def outcome(what: str) -> str:
        try:
            return f"{what} of {calls[what]().numel()}"
        except hvd.HorovodInternalError as error:
            return str(error)

    for what in calls:
        for _ in range(10):
            outcome(what)
    outcomes = [outcome(what) for what in calls if RANK == 1]
    hvd.join()
    return outcomes + [outcome(what) for what in calls]


def deadlock() -> str:
    sums("met")
    try:
        return f"summed {sums(f'only.rank.{RANK}')}"
    except hvd.HorovodInternalError as error:
        return f"HorovodInternalError: {error}"


(mode,) = sys.argv[2:]
start_mpi(_basics.MPI_LIB_CTYPES)
with running(hvd, mode, **TIMELINE):
    traced = [sums("traced.0", "traced.1") for _ in range(TRACED_STEPS)]
    strange = [sums(*NAMES) for _ in range(TRACED_STEPS)][-1]
with running(hvd, mode, HOROVOD_STALL_CHECK_TIME_SECONDS="1"):
    late = late_sums()
with running(hvd, mode, **STALL_LIMITS):
    ended = deadlock()
with running(hvd, mode, **TUNING):
    # No call recurs: topo would plan it, and autotuning sees negotiated tensors only.
    tuned = [sums("tuned.0", "tuned.1", "tuned.2", size=1 + step) for step in range(TUNED_STEPS)]
    joined = joined_sums()
with running(hvd, mode, HOROVOD_DISABLE_GROUP_FUSION="1"):
    grouped = grouped_sums()
with running(hvd, mode):
    refused = refused_calls()
report(names=NAMES, strange=strange, traced=traced, tuned=tuned, joined=joined, late=late,
       ended=ended, grouped=grouped, refused=refused)
