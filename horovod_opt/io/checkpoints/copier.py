"""The thread that drains: one part after the other, and again what has failed."""

from __future__ import annotations

import threading
from typing import Optional

from horovod_opt.io.checkpoints.draining import (
    DamagedPart,
    drain,
    expire,
    release,
    stay_in_background,
)
from horovod_opt.io.checkpoints.tier import Tier
from horovod_opt.io.errors import DataError
from horovod_opt.io.progress import say

PAUSES = (1, 2, 5, 10, 30)  # seconds after the first, the second, ... failure in a row


class Copier:
    """Of one rank's parts. `slow_bytes`: that it has written; `failures`: attempts in a row that
    have failed, the last one with `error`; `pinned`: a version whose fast copy somebody reads.

    `work` is held while it copies and removes: who removes something, too, holds it. `removing` is
    held while it removes: who looks for a version holds it.
    """

    def __init__(self, fast: Tier, slow: Tier, rank: int, keep: int):
        self._fast, self._slow, self._rank, self._keep = fast, slow, rank, keep
        self.slow_bytes = self.failures = 0
        self.error: Optional[Exception] = None
        self.pinned: Optional[int] = None
        self.work, self.removing = threading.Lock(), threading.Lock()
        self._damaged: set[int] = set()
        self._drained: set[int] = set()  # durable in the slow tier, as this process knows
        self._is_over = False
        self._has_news = True  # something to look at
        self._is_at_work = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="hio-drain", daemon=True)
        self._thread.start()

    def notify(self) -> None:
        """There is something new on the fast tier."""
        with self._changed:
            self._has_news = True
            self._changed.notify_all()

    def waiting(self) -> list[int]:
        """Versions whose part the slow tier does not have yet; of damaged ones it never will."""
        return [step for step in self._fast.parts(self._rank)
                if step not in self._damaged | self._drained]

    def make_room(self) -> None:
        """All that the slow tier has goes from the fast one, but for what is pinned."""
        with self.work, self.removing:
            release(self._fast, self._rank, self._drained - {self.pinned})

    def forget(self, step: int) -> None:
        """Its part is another one from now on; `work` is held."""
        self._drained.discard(step)
        self._damaged.discard(step)

    def wait(self, behind: int) -> None:
        """Until so many versions or fewer wait to be copied. Raises its error: it has tried again
        in vain since this was called."""
        with self._changed:
            before = self.failures
            self._has_news = True
            self._changed.notify_all()
            while len(self.waiting()) > behind or (
                    not behind and (self._has_news or self._is_at_work)):
                if self.failures > before:
                    raise DataError(
                        f"{self._slow.folder} cannot be written to, so nothing more of "
                        f"{self._fast.folder} can go: {self.error}; remedy: repair it or make room,"
                        " then horovod-opt io drain") from self.error
                self._changed.wait()

    def end(self) -> None:
        """Also in the middle: what is not complete has no name."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        stay_in_background()
        while True:
            with self._changed:
                pause = PAUSES[min(self.failures, len(PAUSES)) - 1] if self.failures else None
                if self.failures or not self._has_news:
                    self._changed.wait_for(lambda: self._is_over or self._has_news, pause)
                if self._is_over:
                    return
                self._has_news, self._is_at_work = False, True
            try:
                self._drain_all()
            except Exception as error:
                self._fail(error)
            with self._changed:
                self._is_at_work = False
                self._changed.notify_all()

    def _drain_all(self) -> None:
        for step in self._fast.parts(self._rank):
            if self._is_over:
                return
            try:
                with self.work:
                    self._drain_one(step)
            except DamagedPart as error:
                self._damaged.add(step)
                say(str(error))
            with self._changed:
                self._changed.notify_all()
        with self.work, self.removing:
            expire(self._slow, self._rank, self._keep)
            # The newest stays: who starts again on this node reads it from here.
            stays = {*self._fast.parts(self._rank)[-1:], self.pinned}
            release(self._fast, self._rank, self._drained - stays)
        self.failures, self.error = 0, None

    def _drain_one(self, step: int) -> None:
        if step not in self._damaged | self._drained and self._fast.path(step, self._rank).exists():
            self.slow_bytes += drain(self._fast, self._slow, step, self._rank, self._advance)
            self._drained.add(step)

    def _advance(self, size: int) -> None:
        if self._is_over:
            raise DataError("the copy was left off")

    def _fail(self, error: Exception) -> None:
        with self._changed:
            is_new = str(error) != str(self.error) and not self._is_over
            self.failures, self.error = self.failures + 1, error
        if is_new:
            say(f"checkpoints stay in {self._fast.folder}, as {self._slow.folder} cannot be written"
                f" to: {error}; it is tried again. Remedy: repair it, or make room")
