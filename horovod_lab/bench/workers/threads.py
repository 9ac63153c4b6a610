"""CPU time of this process' threads, from /proc."""

import os
from pathlib import Path

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
