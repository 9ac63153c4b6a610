"""Does a model fit into this host's memory? Asked before the kernel ends a rank without a word."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from rank import Rank

GIB = 2**30


def available_bytes(meminfo: str | None = None, cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """What processes can still get: of the host, or of the container's limit if that is less."""
    text = Path("/proc/meminfo").read_text() if meminfo is None else meminfo
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    free = int(fields["MemAvailable"].split()[0]) * 1024
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return free
    return free if limit == "max" else min(free, int(limit) - used)


def require(rank: Rank, model: str, bytes_each: int) -> None:
    """Ends the program on every rank, with a message of rank 0, unless the ranks of each host find
    `bytes_each` there for each of them. `bytes_each` is what the model needs at least."""
    hosts = rank.exchange([socket.gethostname(), available_bytes()])
    for name in dict.fromkeys(host for host, _ in hosts):
        ranks = sum(host == name for host, _ in hosts)
        free = min(available for host, available in hosts if host == name)
        if ranks * bytes_each > free:
            if rank.rank == 0:
                print(f"{model} does not fit the memory of {name}: {ranks} ranks need at least "
                      f"{bytes_each / GIB:.1f} GiB each, {free / GIB:.1f} GiB are available; "
                      "remedy: fewer ranks, a smaller batch or fewer pixels", file=sys.stderr,
                      flush=True)
            rank.exchange(None)
            sys.exit(1)
