"""What a loader has taken and waited for: for data.stats() and horovod_opt.stats()."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Optional

from horovod_opt.io import totals
from horovod_opt.io.errors import ReaderEnded
from horovod_opt.io.node_reader.member import Member

if TYPE_CHECKING:
    from horovod_opt.io.kept.job_memory import JobMemory

PUBLISH_SECONDS = 0.5


class PastStats:
    """Sums over the loaders of a data set that have ended."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._lock = threading.Lock()

    def add(self, stats: dict[str, float]) -> None:
        with self._lock:
            for name, value in stats.items():
                self._sums[name] = self._sums.get(name, 0) + value

    def sums(self) -> dict[str, float]:
        with self._lock:
            return dict(self._sums)


class LoaderStats:
    """Of one loader, which has samples of `parts` parts through `member`. `counts_node`: what the
    node reads is counted here, so that it is once. `job_memory` counts for itself."""

    def __init__(self, member: Member, parts: int, counts_node: bool, past: PastStats,
                 job_memory: Optional[JobMemory] = None):
        self._member, self._parts, self._counts_node = member, parts, counts_node
        self._past, self._job_memory = past, job_memory
        self.training_waited = 0.0  # seconds that the training waited for its next batch
        self._waited_now: Callable[[], float] = float  # and for those that somebody else counts
        self._last: dict[str, float] = {}
        self._published = time.monotonic()
        self._waits = threading.Lock()
        self._is_past = False
        self._number = totals.add(self.publish)

    def now(self) -> dict[str, float]:
        """See Data.stats()."""
        with suppress(ReaderEnded):  # then they are those of its end
            rank, reader = self._member.stats(), self._member.reader_stats()
            self._last = {
                "samples": rank.records // self._parts, "bytes": rank.bytes,
                "samples_from_storage": (rank.records - rank.cached) // self._parts,
                "reader_waits": rank.waits, "reader_wait_seconds": rank.wait_seconds,
                "node_bytes_read": reader.bytes_read, "node_requests": reader.requests,
                "node_chunks": reader.loads, "node_most_live_bytes": reader.most_live_bytes,
                "node_cached_bytes": reader.cached_bytes,
                "node_again_bytes": reader.again_bytes}
        with self._waits:
            waited = self.training_waited + self._waited_now()
        return {**self._last, "training_wait_seconds": waited}

    def waited_since(self, start: int) -> None:
        """The training has waited for a batch from `start` until now; as time.monotonic_ns()."""
        end = time.monotonic_ns()
        self.training_waited += (end - start) / 1e9
        totals.add_wait(start, end)

    def wait_is(self, seconds: Callable[[], float]) -> None:
        """From now until wait_is_over(), that is what the training has waited in a pass."""
        with self._waits:
            self._waited_now = seconds

    def wait_is_over(self) -> None:
        """Nobody else counts any more."""
        with self._waits:
            self.training_waited += self._waited_now()
            self._waited_now = float

    def publish(self) -> None:
        """Brings horovod_opt.stats() up to date."""
        self._published = time.monotonic()
        totals.publish(self._number, self._of_process(self.now()))
        if self._job_memory is not None:
            self._job_memory.publish()

    def publish_now_and_then(self) -> None:
        """The same, if it was not done lately: for the table that hvd.shutdown() prints, which asks
        nobody."""
        if time.monotonic() - self._published > PUBLISH_SECONDS:
            self.publish()

    def end(self) -> None:
        """The loader is about to end: what it has had is kept without it."""
        with self._waits:
            if self._is_past:
                return
            self._is_past = True
        stats = self.now()
        self._past.add(stats)
        totals.end(self._number, self._of_process(stats))

    def _of_process(self, stats: dict[str, float]) -> dict[str, float]:
        if self._counts_node:
            return stats
        return {name: value for name, value in stats.items() if not name.startswith("node_")}
