"""How much memory is asked for, and how much this process may use."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Union

from horovod_opt.io.errors import InputError, tell

UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4,
         "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}


def parse(memory: Union[int, str], name: str = "memory") -> int:
    """Bytes of 1073741824, "1GiB", "1.5 GB" or "512M". Raises InputError about `name`."""
    number, unit = memory, ""
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", memory, re.IGNORECASE)
        number, unit = (float(match[1]), (match[2] or "").lower()) if match else (0, "")
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number <= 0:
        raise InputError(f"{name}={tell(memory)} is no amount of memory; remedy: a number of "
                         "bytes, or a text such as \"2GiB\"")
    return int(number * UNITS[unit])


def show(size: int) -> str:
    """Such as "1.50 GiB"."""
    for unit in ("GiB", "MiB", "KiB"):
        if size >= UNITS[unit[:2].lower()]:
            return f"{size / UNITS[unit[:2].lower()]:.2f} {unit}"
    return f"{size} bytes"


def limit() -> int | None:
    """Bytes that the control groups of this process allow, or the machine has; None: unknown."""
    limits = []
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            folder = "/sys/fs/cgroup"
            if number != "0":
                if "memory" not in controllers.split(","):
                    continue
                folder += "/memory"
            name = "memory.max" if number == "0" else "memory.limit_in_bytes"
            own_group = Path(folder, path.lstrip("/"))
            for group in (own_group, *own_group.parents):
                with suppress(OSError, ValueError):
                    limits.append(int((group / name).read_text()))
    with suppress(OSError, IndexError, ValueError):
        limits.append(int(Path("/proc/meminfo").read_text().split()[1]) << 10)
    return min(limits, default=None)
