"""The damaged samples of a data set that were left out, by epoch: whoever left them out."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping

from horovod_opt.io.node_reader.hole_log import HoleLog


class Holes:
    """Those in the logs of loaders, and those that are known otherwise: of a state, or of other
    nodes. `may_be`: there may be any.

    A log is looked at until settle(), though its loader has ended: other ranks of the node may
    still be taking their last batches."""

    def __init__(self, may_be: bool) -> None:
        self._may_be = may_be
        self._known: dict[int, set[int]] = {}
        self._ended: list[HoleLog] = []
        self._logs: weakref.WeakSet[HoleLog] = weakref.WeakSet()
        self._lock = threading.RLock()

    def watch(self, log: HoleLog) -> None:
        """A loader has begun to write it."""
        with self._lock:
            self._logs.add(log)

    def end(self, log: HoleLog) -> None:
        """Its loader is about to end."""
        if self._may_be:
            with self._lock:
                self._ended.append(log)
        else:
            log.close()

    def settle(self) -> None:
        """Nobody writes to logs of loaders that have ended."""
        with self._lock:
            for log in self._ended:
                self._logs.discard(log)
                self.add(log.by_epoch().items())
                log.close()
            self._ended = []

    def add(self, rows: Iterable[tuple[int, Iterable[int]]]) -> None:
        """Of each epoch, samples that others have left out."""
        with self._lock:
            for epoch, samples in rows:
                self._known.setdefault(epoch, set()).update(samples)

    def replace(self, known: Mapping[int, Iterable[int]]) -> None:
        """There are these, and none of those before."""
        with self._lock:
            self._known = {epoch: set(samples) for epoch, samples in known.items()}
            for log in list(self._logs):
                log.forget()

    def by_epoch(self) -> dict[int, list[int]]:
        """All of them, sorted."""
        with self._lock:
            merged = {epoch: set(samples) for epoch, samples in self._known.items()}
            for log in list(self._logs):
                for epoch, samples in log.by_epoch().items():
                    merged.setdefault(epoch, set()).update(samples)
        return {epoch: sorted(samples) for epoch, samples in sorted(merged.items())}
