"""The ranks of the job, and the small allgather that they need before the first batch."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Optional

from horovod_opt.io.errors import InputError
from horovod_opt.io.job.attendance import watched

FRAMEWORKS = ("torch", "tensorflow", "keras", "tensorflow.keras", "mxnet")
# What launchers tell each rank, to notice a job whose ranks have not met yet.
SIZES = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE",
         "SLURM_STEP_NUM_TASKS")


@dataclass(frozen=True)
class Communication:
    """Rank `rank` of `size`. `allgather` takes bytes and returns those of all ranks, by rank; every
    rank calls it: in open(), as loaders are made, and as loops over them begin; with TensorFlow
    that is in a thread of its own, so an MPI communicator should be for this alone. Ranks of one
    machine share a reader if they have the same `place`. `named`: an allgather with this name,
    which may be under way at the same time as those with others. `channel_name` and `what` are
    set by channel() and doing()."""

    rank: int
    size: int
    allgather: Callable[[bytes], list[bytes]]
    place: str = ""
    named: Optional[Callable[[str], Callable[[bytes], list[bytes]]]] = None
    channel_name: str = ""
    what: str = ""

    def channel(self, name: str) -> Communication:
        """Of the same ranks, beside what others say to each other, where they can do so."""
        if self.named is None:
            return self
        return replace(self, allgather=self.named(name), channel_name=name)

    def doing(self, what: str) -> Communication:
        """The same, which says what this rank does if others let it wait for long."""
        if self.size == 1:
            return self
        plain = self.allgather

        def allgather(data: bytes) -> list[bytes]:
            with watched(self.rank, self.size, self.channel_name, what):
                return plain(data)

        return replace(self, allgather=allgather, what=what)


ALONE = Communication(0, 1, lambda data: [data])

_channels = 0
_lock = threading.Lock()


def next_channel() -> int:
    """The number of a channel that this process has not used."""
    return _channels


def use_channel(number: int) -> int:
    """The same number, which is in use from now on: the highest that a rank has proposed."""
    global _channels
    with _lock:
        _channels = max(_channels, number + 1)
    return number


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

        def named(name: str, hvd: Any = hvd) -> Callable[[bytes], list[bytes]]:
            return lambda data: hvd.allgather_object(data, name=f"horovod_opt.io{name}")

        return Communication(hvd.rank(), hvd.size(), named(""),
                             named=lambda name: named(f".{name}"))
    return None


def _of_torch() -> Communication | None:
    torch = sys.modules.get("torch")
    if torch is None or not (torch.distributed.is_available()
                             and torch.distributed.is_initialized()):
        return None
    size = torch.distributed.get_world_size()
    if size == 1:
        return ALONE

    def allgather(data: bytes) -> list[bytes]:
        gathered: list[bytes] = [b""] * size
        # To make the group is to wait for the others, too.
        torch.distributed.all_gather_object(gathered, data, group=_group_of(torch))
        return gathered

    return Communication(torch.distributed.get_rank(), size, allgather)


_groups: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _group_of(torch: Any) -> Any:
    """A group of all ranks in which objects do not go through the memory of GPUs, as in the job's
    own group if that is NCCL's. One for each of the job's: a group is never given back."""
    world = torch.distributed.group.WORLD
    if world not in _groups:
        _groups[world] = torch.distributed.new_group(backend="gloo")
    return _groups[world]
