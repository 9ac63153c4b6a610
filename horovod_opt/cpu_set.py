"""The CPUs and physical cores that this process may use, and lists of CPUs as Linux writes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path


def allowed_cpus() -> list[int]:
    """CPUs that the launcher or the container left to this process."""
    return sorted(os.sched_getaffinity(0))


def count_cores(cpus: Iterable[int], sysfs: Path = Path("/sys/devices/system/cpu")) -> int:
    """Physical cores among `cpus`: hyperthreads of one core count once."""
    return len({_core(cpu, sysfs) for cpu in cpus})


def _core(cpu: int, sysfs: Path) -> str:
    try:
        return (sysfs / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def parse_list(text: str) -> list[int]:
    """Of "0-3,5"; ascending if the text is. Raises ValueError if it is no such list."""
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def format_list(cpus: Sequence[int]) -> str:
    """Of ascending CPUs: "0-3,5"."""
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
