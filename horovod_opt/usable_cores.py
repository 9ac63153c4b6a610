"""The CPUs and physical cores that this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterable
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
