"""From the fast tier to the slow one: a part is copied, compared, and only then removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress

from horovod_opt.io.checkpoints import manifest as manifests
from horovod_opt.io.checkpoints.files import copy, remove
from horovod_opt.io.checkpoints.tier import Tier
from horovod_opt.io.errors import DataError

Advance = Callable[[int], None]  # with bytes that were copied


class DamagedPart(DataError):
    """A part of the fast tier that is not what was saved: copying it again would not help."""


def drain(fast: Tier, slow: Tier, step: int, rank: int,
          advance: Advance = lambda size: None) -> int:
    """B2: the part is on the slow tier, durable and with the same bytes, when this returns; bytes
    that were written. Raises OSError; DataError, if what the slow tier has is something else."""
    source = fast.path(step, rank)
    try:
        manifest = fast.manifest(step, rank)
    except DataError as error:
        raise DamagedPart(str(error)) from error
    if slow.path(step, rank).exists():
        with suppress(DataError):
            if slow.manifest(step, rank) == manifest:
                manifests.check(slow.path(step, rank), manifest)
                slow.settle([step])  # who renamed it may have died before it was synced
                return 0
        # Of another run, or damaged: this rank's newer save takes its place.
        slow.remove(step, rank)
    part = slow.new_part(step, rank)
    try:
        for name in (*manifest.entries, manifests.NAME):
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            copy(source / name, part / name, advance)
        try:
            manifests.check(part, manifest)
        except DataError:
            try:
                manifests.check(source, manifest)
            except DataError as error:
                raise DamagedPart(str(error)) from error
            raise
        slow.rename(part, manifest)
    except BaseException:
        with suppress(OSError):
            remove(part)
        raise
    return manifest.bytes


def expire(slow: Tier, rank: int, keep: int) -> None:
    """B3: of this rank, removes what is older than the `keep` newest complete versions. These may
    have been renamed by other ranks, who have not synced that yet: this one does."""
    complete = [step for step in slow.steps() if slow.is_complete(step)][-keep:]
    doomed = [step for step in slow.parts(rank) if len(complete) == keep and step < complete[0]]
    if doomed:
        slow.settle(complete)
    for step in doomed:
        slow.remove(step, rank)


def release(fast: Tier, rank: int, drained: Collection[int]) -> None:
    """B2: removes this rank's fast copies of what drain() has brought to the slow tier."""
    for step in fast.parts(rank):
        if step in drained:
            fast.remove(step, rank)


def part_bytes(tier: Tier, step: int, rank: int) -> int:
    """0: it has no MANIFEST that can be read."""
    try:
        return tier.manifest(step, rank).bytes
    except DataError:
        return 0


def stay_in_background() -> None:
    """For the calling thread, where the system knows it: other processes' reads and writes go
    first. Its processor time is not lowered: a thread that waits for a core while it has Python's
    lock would stop the training. It has the cores of the thread that started it, so not scp's."""
    import ctypes
    import platform

    number = {"x86_64": 251, "aarch64": 30}.get(platform.machine())
    if number is not None and os.name == "posix":
        is_process, idle = 1, 3 << 13  # IOPRIO_WHO_PROCESS, IOPRIO_CLASS_IDLE; 0: this thread
        ctypes.CDLL(None).syscall(number, is_process, 0, idle)
