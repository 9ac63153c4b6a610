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

    All ranks of a node add the same epochs, and loads of an epoch are numbered from a number that
    is the epoch's own: one that was left early need not be gone through to know those of the next.
    """

    def __init__(self, member: Member):
        self._member = member
        self._epochs: deque[tuple[int, Iterator[Loads]]] = deque()
        self._next: Optional[Loads] = None  # the first one that was not fed
        self._number = 0  # of its first load
        self._lock = threading.Lock()  # a loop that was left may still be ending

    def add(self, number: int, pieces: Iterator[Loads]) -> None:
        """The next epoch: its loads in the order of their first steps, numbered from `number`."""
        with self._lock:
            self._epochs.append((number, pieces))

    def forget(self) -> None:
        """What was added is not needed any more."""
        with self._lock:
            self._epochs.clear()
            self._next = None

    def feed_until(self, step: int) -> None:
        """Feeds all that is needed in steps up to this one."""
        with self._lock:
            while self._peek() is not None and self._next.first[0] <= step:
                self._member.feed(self._next, self._number)
                self._number += len(self._next.chunk)
                self._next = None

    def _peek(self) -> Optional[Loads]:
        while self._next is None and self._epochs:
            number, pieces = self._epochs[0]
            self._next = next(pieces, None)
            if self._next is None:
                self._epochs.popleft()
            elif number >= 0:
                self._number = number
                self._epochs[0] = (-1, pieces)
        return self._next
