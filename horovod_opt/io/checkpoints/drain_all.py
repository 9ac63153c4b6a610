"""What a job that has ended left in its fast folder, of all ranks, to the slow one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from horovod_opt.io.checkpoints.draining import (
    DamagedPart,
    drain,
    expire,
    part_bytes,
    release,
    stay_in_background,
)
from horovod_opt.io.checkpoints.lock import Lock
from horovod_opt.io.checkpoints.tier import Tier
from horovod_opt.io.errors import InputError
from horovod_opt.io.progress import Meter


@dataclass
class Drained:
    """`complete`: versions of the slow folder."""

    parts: int = 0
    bytes: int = 0
    damaged: list[str] = field(default_factory=list)
    complete: list[int] = field(default_factory=list)


def drain_all(fast_folder: Path, slow_folder: Path, keep: int,
              meter_of: Callable[[int], Meter]) -> Drained:
    """Raises InputError: the job still runs, or these are no such folders; OSError: the slow one
    cannot be written to, and what it lacks is still in the fast one."""
    if not fast_folder.is_dir():
        raise InputError(f"{fast_folder} is no folder of this machine; remedy: the fast folder of "
                         "the job, on the node where it ran")
    if fast_folder.resolve() == slow_folder.resolve():
        raise InputError(f"{fast_folder} and {slow_folder} are one folder; remedy: the job's two")
    stay_in_background()
    fast, slow = Tier(fast_folder.absolute(), "fast"), Tier(slow_folder.absolute(), "slow")
    parts = [(step, rank) for step in fast.steps() for rank in fast.ranks(step)]
    ranks = sorted({rank for _, rank in parts})
    done = Drained()
    with ExitStack() as stack:
        for tier in (fast, slow):
            for rank in ranks:
                stack.callback(Lock(tier.folder, rank).release)
                tier.tidy(rank)
        meter = meter_of(sum(part_bytes(fast, *part) for part in parts))
        for step, rank in parts:
            try:
                done.bytes += drain(fast, slow, step, rank, meter.advance)
                done.parts += 1
            except DamagedPart as error:
                done.damaged.append(str(error))
                continue
            expire(slow, rank, keep)
            release(fast, rank, {step})
        meter.finish()
    done.complete = [step for step in slow.steps() if slow.is_complete(step)]
    return done
