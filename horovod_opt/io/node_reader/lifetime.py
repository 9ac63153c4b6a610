"""What the end of Python does with readers that were not closed: as if they were."""

from __future__ import annotations

import atexit
import time
import weakref
from typing import Any

from horovod_opt.io.node_reader import forked

# At its exit a leader serves those who still take their last batches.
LAST_SECONDS = 5.0


class _Open:
    """Those of this process: not of the one that it was forked from."""

    def __init__(self) -> None:
        self.let_go()
        forked.watch(self)

    def let_go(self) -> None:
        self.members: weakref.WeakSet[Any] = weakref.WeakSet()
        self.leaders: weakref.WeakSet[Any] = weakref.WeakSet()

    def close(self) -> None:
        """Members first: a leader waits until all have left."""
        for member in list(self.members):
            member.close()
        deadline = time.monotonic() + LAST_SECONDS
        leaders = list(self.leaders)
        for leader in leaders:
            leader.close()
        for leader in leaders:
            leader.wait(deadline - time.monotonic())
            leader.stop()


_open = _Open()
atexit.register(_open.close)


def at_exit(leader: object = None, member: object = None) -> None:
    """Has it closed at the end of Python, if it is still there."""
    if leader is not None:
        _open.leaders.add(leader)
    if member is not None:
        _open.members.add(member)
