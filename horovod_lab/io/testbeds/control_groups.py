"""Control groups of processes, and a limit of their memory with the page cache that they fill."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from horovod_lab.io.testbeds.testbed import NoTestbed

PREFIX = "horovod-opt-stand-"
UNLIMITED = "-1"
REMOVED_WITHIN = 60.0  # seconds
_numbers = itertools.count()  # of this process's groups


def hierarchy(testbed: str, controller: str, mounts: Path = Path("/proc/mounts")) -> Path:
    """Where the controller's groups are. Raises NoTestbed without version 1 of it."""
    for line in mounts.read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup" and controller in options.split(","):
            return Path(folder)
    raise NoTestbed(
        f"--stand {testbed} needs control groups of version 1 with {controller}, which this "
        "machine does not have; remedy: boot with systemd.unified_cgroup_hierarchy=0 "
        "systemd.legacy_systemd_cgroup_controller=1, or another machine")


class Group:
    """Of a controller, made by the constructor, until close(). Processes join by writing their
    number to `procs`."""

    def __init__(self, root: Path, name: str):
        self.folder = root / f"{PREFIX}{os.getpid()}-{next(_numbers)}-{name}"
        self.folder.mkdir()
        self.procs = self.folder / "cgroup.procs"

    def close(self) -> None:
        _remove(self.folder)


class MemoryGroup(Group):
    def usage(self) -> int:
        """Bytes that its processes have allocated and mapped, and the kernel for them; without what
        is only cached."""
        statistics = dict(line.split() for line in
                          (self.folder / "memory.stat").read_text().splitlines())
        kernel = int((self.folder / "memory.kmem.usage_in_bytes").read_text())
        return int(statistics["total_rss"]) + int(statistics["total_mapped_file"]) + kernel

    def limit(self, size: int) -> None:
        """At most so many bytes; what is cached beyond that is forgotten now."""
        (self.folder / "memory.limit_in_bytes").write_text(str(size))

    def lift_limit(self) -> None:
        (self.folder / "memory.limit_in_bytes").write_text(UNLIMITED)

    def count_kills(self) -> int:
        """Processes that were killed because the limit left them no memory."""
        lines = (self.folder / "memory.oom_control").read_text().splitlines()
        return int(dict(line.split() for line in lines)["oom_kill"])


def remove_leftovers(root: Path) -> None:
    """Groups of processes that were killed, and what still runs in them."""
    for folder in root.glob(f"{PREFIX}*"):
        if not psutil.pid_exists(int(folder.name[len(PREFIX):].split("-")[0])):
            with suppress(FileNotFoundError):  # another process has just done it
                _remove(folder)


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + REMOVED_WITHIN
    while True:
        for process in _processes(folder):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            raise
        except OSError:  # it is busy until the last process is gone
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _processes(folder: Path) -> Iterator[int]:
    with suppress(OSError):  # the group has just been removed
        yield from map(int, (folder / "cgroup.procs").read_text().split())
