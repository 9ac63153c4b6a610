"""The ranks of the job, and the small allgather that they need before the first batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from horovod_opt.io.errors import InputError

FRAMEWORKS = ("torch", "tensorflow", "keras", "tensorflow.keras", "mxnet")
# What launchers tell each rank, to notice a job whose ranks have not met yet.
SIZES = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE",
         "SLURM_STEP_NUM_TASKS")


@dataclass(frozen=True)
class Communication:
    """Rank `rank` of `size`. `allgather` takes bytes and returns those of all ranks, by rank; every
    rank calls it. Ranks of one machine share a reader if they have the same `place`."""

    rank: int
    size: int
    allgather: Callable[[bytes], list[bytes]]
    place: str = ""


ALONE = Communication(0, 1, lambda data: [data])


def find() -> Communication:
    """Of Horovod (this project's or upstream's) or torch.distributed, whichever is initialized,
    else of this process alone. Raises InputError in a job whose ranks have not met yet."""
    ranks = _of_horovod() or _of_torch()
    if ranks is not None:
        return ranks
    for name in SIZES:
        size = os.environ.get(name, "1")
        if size.isdecimal() and int(size) > 1:
            raise InputError(
                f"{name}={size}, but neither Horovod nor torch.distributed is initialized, so "
                "every rank would read all data; remedy: call hvd.init() or "
                "torch.distributed.init_process_group() before horovod_opt.io.open(), or pass "
                "alone=True, or the ranks")
    return ALONE


def _of_horovod() -> Communication | None:
    for framework in FRAMEWORKS:
        hvd = sys.modules.get(f"horovod.{framework}")
        if hvd is None or not hasattr(hvd, "allgather_object") or not hvd.is_initialized():
            continue
        if hvd.size() == 1:
            return ALONE
        return Communication(
            hvd.rank(), hvd.size(),
            lambda data: hvd.allgather_object(data, name="horovod_opt.io"))
    return None


def _of_torch() -> Communication | None:
    torch = sys.modules.get("torch")
    if torch is None or not (torch.distributed.is_available()
                             and torch.distributed.is_initialized()):
        return None
    size = torch.distributed.get_world_size()
    if size == 1:
        return ALONE
    # Objects go through the memory of GPUs if the job's own group is NCCL's.
    group = torch.distributed.new_group(backend="gloo")

    def allgather(data: bytes) -> list[bytes]:
        gathered: list[bytes] = [b""] * size
        torch.distributed.all_gather_object(gathered, data, group=group)
        return gathered

    return Communication(torch.distributed.get_rank(), size, allgather)
