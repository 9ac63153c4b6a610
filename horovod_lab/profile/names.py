"""Names of threads by which to class them, also of those that have none of their own.

Linux gives a new thread the name of the one that creates it, and refuses names of more than 15
characters: TensorFlow's tf_data_private_threadpool and tf_numa_-1_Eigen are such, and remain
"python". So does the background thread of upstream's Horovod. What they wait in, how often they
wake up, and the order in which they came tell them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

# Kinds of waits by parts of the names of the kernel's functions.
WAITS = {"nanosleep": "sleep", "futex": "futex", "poll": "poll", "select": "poll"}
# TensorFlow starts its intra-op pool, this pool, and only then whatever reads data.
COMPUTE = "tf_Compute"


class Thread(Protocol):
    tid: int
    name: str
    waits: Mapping[str, int]  # how often it was seen in each kind of wait
    wakeups: int
    cpu: float


def wait_kind(function: str) -> str:
    return next((kind for part, kind in WAITS.items() if part in function), "other")


def names_of_rank(threads: Sequence[Thread], pid: int) -> dict[int, str]:
    """By thread, for all that the rank's process ever had, in the order of creation."""
    main = next((thread.name for thread in threads if thread.tid == pid), "")
    unnamed = [thread for thread in threads if thread.tid != pid and thread.name == main]
    background = _background(unnamed, threads)
    compute = next((thread.tid for thread in threads if thread.name == COMPUTE), None)
    names = {thread.tid: thread.name for thread in threads}
    names[pid] = "@main"
    for thread in unnamed:
        kind = max(thread.waits, key=thread.waits.get, default="unknown")
        if thread.tid == background:
            names[thread.tid] = "@background"
        elif kind == "futex" and compute is not None and thread.tid > compute:
            names[thread.tid] = "@tf.data"
        else:
            names[thread.tid] = f"@unnamed {kind}"
    return names


def _background(unnamed: Sequence[Thread], threads: Sequence[Thread]) -> int | None:
    """Upstream's background thread: it sleeps what is left of each cycle, which no pool and no
    helper does, and wakes up most often of those that sleep. One that spins all the time never
    sleeps, nor does it wait for anything else."""
    if any(thread.name.startswith("hvd-") for thread in threads):
        return None
    sleeping = [thread for thread in unnamed if thread.waits.get("sleep")]
    if sleeping:
        return max(sleeping, key=lambda thread: thread.wakeups).tid
    spinning = [thread for thread in unnamed if not thread.waits and thread.cpu >= 0.5]
    return max(spinning, key=lambda thread: thread.cpu).tid if spinning else None
