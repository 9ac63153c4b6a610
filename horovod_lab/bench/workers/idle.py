"""CPU use after hvd.init() while nothing happens: percent of a core, of the busiest rank.

The threads that appeared during hvd.init() are Horovod's background thread and MPI's helpers;
upstream gives them no name to be found by.
"""

import os
import time
from pathlib import Path

from rank import Rank

SETTLE_SECONDS = 1.0
TASKS = Path("/proc/self/task")


def thread_ids() -> set[int]:
    return {int(task.name) for task in TASKS.iterdir()}


def cpu_seconds(thread: int) -> float:
    """Time on a CPU so far; 0 once the thread has ended.

    schedstat counts nanoseconds; kernels built without it leave stat, which counts ticks (10 ms).
    """
    task = TASKS / str(thread)
    try:
        if (task / "schedstat").exists():
            return int((task / "schedstat").read_text().split()[0]) * 1e-9
        # The second field is the name, in brackets, and may itself hold spaces and brackets.
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def main() -> None:
    import tensorflow  # noqa: F401  its threads must exist before hvd.init() to be told apart

    rank = Rank("idle")
    if rank.uses_horovod:
        import horovod.tensorflow  # noqa: F401  likewise
    before = thread_ids()
    rank.init()
    rank.allgather(None)
    time.sleep(SETTLE_SECONDS)

    threads = thread_ids()
    new = threads - before
    cpu_before = {thread: cpu_seconds(thread) for thread in threads}
    start = time.perf_counter()
    time.sleep(rank.seconds)
    seconds = time.perf_counter() - start
    percent = {thread: 100 * (cpu_seconds(thread) - cpu_before[thread]) / seconds
               for thread in threads}

    background, process = sum(percent[thread] for thread in new), sum(percent.values())
    rank.report({"background_percent": max(rank.allgather(background)),
                 "process_percent": max(rank.allgather(process))},
                background_percent=background, process_percent=process)


if __name__ == "__main__":
    main()
