"""When a process lets go of a reader that was not closed: when nobody has it any more, after a
fork, and at Python's end."""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from typing import Any, Optional, Protocol

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


class _Undertaker:
    """A thread that ends what was dropped, while there is anything that may be: whoever collects
    garbage may be any thread, in the middle of anything, and must not wait.

    Invariant: what is called by the collector takes no lock. SimpleQueue.put() takes none of
    Python's."""

    def __init__(self) -> None:
        self.let_go()
        let_go_in_children(self)

    def let_go(self) -> None:
        self.dropped: queue.SimpleQueue = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0  # of what may be dropped

    def begin(self) -> None:
        """There is one more."""
        with self._lock:
            self._count += 1
            if self._count == 1:
                threading.Thread(target=self._run, args=(self.dropped,), name="hio-end",
                                 daemon=True).start()

    def _run(self, dropped: queue.SimpleQueue) -> None:
        while True:
            action = dropped.get()
            if action is not None:
                try:
                    action()
                except Exception:  # as in __del__(), there is nobody to tell
                    traceback.print_exc()
                del action  # and all that it refers to
            with self._lock:
                self._count -= 1
                if self._count == 0:
                    self.dropped = queue.SimpleQueue()
                    return


_undertaker = _Undertaker()


class End:
    """How something ends that reads: once, by now(), or when it was dropped."""

    def __init__(self, resource: object, action: Callable[..., None], *arguments: object):
        _undertaker.begin()
        self._dropped = _undertaker.dropped
        self._action: Optional[Callable[[], None]] = lambda: action(*arguments)
        self._process = os.getpid()
        self._finalizer = weakref.finalize(resource, self._drop)
        self._finalizer.atexit = False

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._finalizer.alive

    def now(self) -> None:
        """Ends it, and returns when it has ended."""
        if self._finalizer.detach() is None:
            return
        action, self._action = self._action, None
        try:
            action()
        finally:
            self._dropped.put(None)

    def _drop(self) -> None:
        action, self._action = self._action, None
        if self._process == os.getpid():
            self._dropped.put(action)


def end_when_dropped(resource: object, action: Callable[..., None], *arguments: object) -> End:
    """`action` ends `resource`, and must not refer to it."""
    return End(resource, action, *arguments)
