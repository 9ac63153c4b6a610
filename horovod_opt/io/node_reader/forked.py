"""What a forked process must let go of: sockets whose end tells of a death, and shared memory."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Inherited(Protocol):
    """Something that a child of this process must not keep."""

    def let_go(self) -> None:
        """Called in the child, right after the fork; takes no locks."""


_inherited: weakref.WeakSet[Inherited] = weakref.WeakSet()


def watch(thing: Inherited) -> None:
    """Calls `thing.let_go()` in every process that is forked from now on, by os.fork()."""
    _inherited.add(thing)


def _let_go() -> None:
    for thing in list(_inherited):
        thing.let_go()


os.register_at_fork(after_in_child=_let_go)
