"""What Slurm tells each task that srun has started."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Other launchers tell their ranks of each other, also if Slurm has started them.
_LAUNCHERS = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE")


def tasks_by_node(text: str) -> list[int]:
    """[4, 4, 1] from 4(x2),1, as in SLURM_TASKS_PER_NODE. Raises ValueError with the text."""
    counts = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if not match:
            raise ValueError(text)
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def local_tasks(environ: Mapping[str, str]) -> int:
    """Tasks of this step on this node; 1 outside of a step."""
    try:
        counts = tasks_by_node(environ["SLURM_STEP_TASKS_PER_NODE"])
        return counts[int(environ["SLURM_NODEID"])]
    except (KeyError, ValueError, IndexError):
        return 1


def alone(size: int, environ: Mapping[str, str]) -> str:
    """What is wrong with a job of `size` ranks if this is the first of several tasks of a step that
    know nothing of each other; otherwise nothing."""
    tasks = environ.get("SLURM_STEP_NUM_TASKS", "1")
    if (size > 1 or tasks == "1" or environ.get("SLURM_PROCID") != "0"
            or any(name in environ for name in _LAUNCHERS)):
        return ""
    return (f"srun has started {tasks} tasks, but Horovod has 1 rank in each of them: they train "
            "apart from each other, because their MPI does not know this --mpi of srun; remedy: "
            "srun --mpi=pmix with Open MPI, --mpi=pmi2 with MPICH, or horovodrun")
