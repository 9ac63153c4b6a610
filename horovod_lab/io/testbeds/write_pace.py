"""How fast the parallel file system writes: at the speed, and in the queue, of what is read."""

from __future__ import annotations

from dataclasses import dataclass

from horovod_lab.io.testbeds.pace import Counted, Pace


@dataclass
class CountedWrites(Counted):
    """`syncs`: of files and of folders. Other changes are metadata requests."""

    write_requests: int = 0
    written_bytes: int = 0
    syncs: int = 0


class WritePace(Pace):
    kind = CountedWrites
    counted: CountedWrites

    def write(self, now: float, size: int) -> float:
        """When `size` bytes, sent now, have arrived."""
        self.counted.write_requests += 1
        self.counted.written_bytes += size
        return self._through(now, size / self._speed.bandwidth)

    def sync(self, now: float) -> float:
        """When all that was sent before is there to stay."""
        self.counted.syncs += 1
        return self._through(now, 0)
