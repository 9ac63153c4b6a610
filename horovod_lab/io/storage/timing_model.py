"""Timing model of the simulated parallel file system: when each request is answered."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple


class Speed(NamedTuple):
    """`bandwidth` in bytes a second, of all nodes together; `delay`: seconds that every request
    takes, though many may wait at a time; `going_back`: seconds that the storage does nothing else
    before a read that begins before the one before it of the same file, whoever asked for that."""

    bandwidth: float = 40 * (1 << 20)
    delay: float = 0.001
    going_back: float = 0.002


@dataclass
class RequestCounts:
    """`metadata_requests`: for names, attributes, opened files and lists of folders."""

    requests: int = 0
    bytes: int = 0
    inversions: int = 0
    metadata_requests: int = 0


class TimingModel:
    """Times are those of one clock, in seconds."""

    kind: ClassVar[type[RequestCounts]] = RequestCounts

    def __init__(self, speed: Speed):
        self.counts = self.kind()
        self._speed = speed
        self._is_released = False
        self._free = 0.0  # when all bytes so far are through
        self._begins: dict[Hashable, int] = {}  # of the last read, by file

    def begin(self) -> None:
        """Counts from 0."""
        self.counts = self.kind()

    def release(self) -> None:
        """What is asked for from now on is answered at once."""
        self._is_released = True

    def metadata(self, now: float) -> float:
        """When a request for anything but data is answered."""
        self.counts.metadata_requests += 1
        return now if self._is_released else now + self._speed.delay

    def read(self, now: float, file: Hashable, offset: int, size: int) -> float:
        """When `size` bytes from `offset` on, asked for now, are there."""
        goes_back = offset < self._begins.get(file, 0)
        self._begins[file] = offset
        self.counts.requests += 1
        self.counts.bytes += size
        self.counts.inversions += goes_back
        return self._through(now, size / self._speed.bandwidth
                             + goes_back * self._speed.going_back)

    def _through(self, now: float, seconds: float) -> float:
        """When the storage has done, after all that it has to do before, what takes it so long."""
        if self._is_released:
            return now
        self._free = max(now, self._free) + seconds
        return max(now + self._speed.delay, self._free)


@dataclass
class WriteCounts(RequestCounts):
    """`syncs`: of files and of folders. Other changes are metadata requests."""

    write_requests: int = 0
    written_bytes: int = 0
    syncs: int = 0


class WriteTimingModel(TimingModel):
    """Writes have the speed, and stand in the queue, of what is read."""

    kind = WriteCounts
    counts: WriteCounts

    def write(self, now: float, size: int) -> float:
        """When `size` bytes, sent now, have arrived."""
        self.counts.write_requests += 1
        self.counts.written_bytes += size
        return self._through(now, size / self._speed.bandwidth)

    def sync(self, now: float) -> float:
        """When all that was sent before is there to stay."""
        self.counts.syncs += 1
        return self._through(now, 0)
