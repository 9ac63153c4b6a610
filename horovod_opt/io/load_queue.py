"""Tells a rank where its samples will be, no further ahead than its steps: epochs may be large."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Optional

from horovod_opt.io.node_reader.member import Member
from horovod_opt.io.order.schedule import Loads


class LoadQueue:
    """Feeds `member` with the loads of epochs that follow each other, in pieces.

    All ranks of a node add the same epochs, so loads have the same numbers on all of them: also the
    pieces of an epoch that was left early are gone through.
    """

    def __init__(self, member: Member):
        self._member = member
        self._epochs: deque[Iterator[Loads]] = deque()
        self._next: Optional[Loads] = None  # the first one that was not fed
        self._lock = threading.Lock()  # a loop that was left may still be ending

    def add(self, pieces: Iterator[Loads]) -> None:
        """The next epoch: its loads in the order of their first steps."""
        self._epochs.append(pieces)

    def feed_until(self, step: int) -> None:
        """Feeds all that is needed in steps up to this one."""
        with self._lock:
            while self._peek() is not None and self._next.first[0] <= step:
                self._member.feed(self._next)
                self._next = None

    def _peek(self) -> Optional[Loads]:
        while self._next is None and self._epochs:
            self._next = next(self._epochs[0], None)
            if self._next is None:
                self._epochs.popleft()
        return self._next
