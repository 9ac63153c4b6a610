"""When a process must let go of a reader that was not closed: after a fork, and at Python's end."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from typing import Any, Protocol

# At its exit a reader serves those who still take their last batches.
LAST_SECONDS = 5.0


class Inherited(Protocol):
    """Something that a child of this process must not keep: a socket whose end tells of a death, or
    shared memory."""

    def let_go(self) -> None:
        """Called in the child, right after the fork; takes no locks."""


_inherited: weakref.WeakSet[Inherited] = weakref.WeakSet()


def let_go_in_children(resource: Inherited) -> None:
    """Calls its `let_go()` in every process that is forked from now on, by os.fork()."""
    _inherited.add(resource)


def _let_go() -> None:
    for resource in list(_inherited):
        resource.let_go()


os.register_at_fork(after_in_child=_let_go)


class _Open:
    """Readers and members of this process: not of the one that it was forked from."""

    def __init__(self) -> None:
        self.let_go()
        let_go_in_children(self)

    def let_go(self) -> None:
        self.members: weakref.WeakSet[Any] = weakref.WeakSet()
        self.readers: weakref.WeakSet[Any] = weakref.WeakSet()

    def close(self) -> None:
        """Members first: a reader waits until all have left."""
        for member in list(self.members):
            member.close()
        deadline = time.monotonic() + LAST_SECONDS
        readers = list(self.readers)
        for reader in readers:
            reader.close()
        for reader in readers:
            reader.wait(deadline - time.monotonic())
            reader.stop()


_open = _Open()
atexit.register(_open.close)


def close_at_exit(reader: object = None, member: object = None) -> None:
    """Has it closed at the end of Python, if it is still there."""
    if reader is not None:
        _open.readers.add(reader)
    if member is not None:
        _open.members.add(member)
