"""How a buffer ends: closed, forgotten, or with its program; and where its fast folder is."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from horovod_opt.io.checkpoints.copier import Copier
from horovod_opt.io.checkpoints.lock import Lock
from horovod_opt.io.errors import DataError

if TYPE_CHECKING:
    from horovod_opt.io.checkpoints.burst_buffer import BurstBuffer


def end(copier: Optional[Copier], locks: list[Lock]) -> None:
    """Its thread, and then its locks: until then no other may write there."""
    if copier:
        copier.end()
    while locks:
        locks.pop().release()


def close_at_exit(buffer: BurstBuffer) -> Callable[[], None]:
    """A program that ends well leaves nothing in the fast tier alone."""
    reference = weakref.ref(buffer)

    def close() -> None:
        there = reference()
        if there is not None:
            with suppress(DataError):  # it has been said, and all is in the fast tier
                there.close()

    return atexit.register(close)


def is_memory(folder: Path) -> bool:
    """Whether its file system ends with the machine."""
    with suppress(OSError):
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        here = [mount for mount in mounts if Path(mount[1]) in (folder, *folder.parents)]
        return max(here, key=lambda mount: len(mount[1]))[2] in ("tmpfs", "ramfs")
    return False
