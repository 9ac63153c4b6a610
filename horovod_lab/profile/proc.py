"""Reads /proc. Processes and threads may vanish at any moment: what is gone reads as nothing."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from horovod_opt import cpu_set

TICKS = os.sysconf("SC_CLK_TCK")
_SWITCHES = re.compile(rb"\nvoluntary_ctxt_switches:\s*(\d+)\nnonvoluntary_ctxt_switches:\s*(\d+)")
_CPUS = re.compile(rb"\nCpus_allowed_list:\s*([0-9,-]+)")


@dataclass(frozen=True)
class Stat:
    """Of /proc/PID/stat. `state` is a letter, R for one that runs or could; times in seconds."""

    name: str
    state: str
    parent: int
    user: float
    system: float


class Proc:
    """`root` is another folder in tests."""

    def __init__(self, root: str = "/proc"):
        self.root = root

    def processes(self) -> list[int]:
        return self._numbers(self.root)

    def threads(self, pid: int) -> list[int]:
        """In the order of creation; none if the process has ended."""
        return self._numbers(f"{self.root}/{pid}/task")

    def path(self, pid: int, tid: int, file: str) -> str:
        return f"{self.root}/{pid}/task/{tid}/{file}"

    def schedstat(self, pid: int, tid: int) -> tuple[int, int, int] | None:
        """CPU time in ns, time in a run queue in ns, how often the thread was given a core."""
        return parse_schedstat(_read(self.path(pid, tid, "schedstat")))

    def schedstat_is_kept(self) -> bool:
        return self.schedstat(os.getpid(), os.getpid()) is not None

    def stat(self, pid: int, tid: int) -> Stat | None:
        # The name is in brackets, and may itself contain blanks and brackets.
        name, closing, rest = _read(self.path(pid, tid, "stat")).rpartition(b")")
        fields = rest.split()
        if not closing or len(fields) < 13:
            return None
        return Stat(name.partition(b"(")[2].decode(errors="replace"), fields[0].decode(),
                    int(fields[1]), int(fields[11]) / TICKS, int(fields[12]) / TICKS)

    def switches(self, pid: int, tid: int) -> tuple[int, int] | None:
        """Voluntary and involuntary context switches."""
        match = _SWITCHES.search(_read(self.path(pid, tid, "status")))
        return (int(match[1]), int(match[2])) if match else None

    def cpus(self, pid: int) -> list[int]:
        """The CPUs that the main thread may use."""
        match = _CPUS.search(_read(self.path(pid, pid, "status")))
        return cpu_set.parse_list(match[1].decode()) if match else []

    def waits_in(self, pid: int, tid: int) -> str:
        """The kernel's function that the thread sleeps in; "" if it does not, or if we may not
        know."""
        text = _read(self.path(pid, tid, "wchan")).decode(errors="replace")
        return "" if text == "0" else text

    def environ(self, pid: int) -> dict[str, str]:
        """As it was when the program started; none if it is another user's."""
        lines = _read(f"{self.root}/{pid}/environ", whole=True).decode(errors="replace").split("\0")
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def maps(self, pid: int) -> bytes:
        return _read(f"{self.root}/{pid}/maps", whole=True)

    @staticmethod
    def _numbers(folder: str) -> list[int]:
        try:
            return sorted(int(name) for name in os.listdir(folder) if name.isdigit())
        except OSError:
            return []


def parse_schedstat(text: bytes) -> tuple[int, int, int] | None:
    fields = text.split()
    return (int(fields[0]), int(fields[1]), int(fields[2])) if len(fields) == 3 else None


def _read(path: str, whole: bool = False) -> bytes:
    """Those of a thread come in one piece."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        text = part = os.read(descriptor, 65536)
        while whole and part:
            part = os.read(descriptor, 65536)
            text += part
        return text
    except OSError:  # ESRCH: it ended after it was opened
        return b""
    finally:
        os.close(descriptor)
