"""What training has in common in both frameworks: the options, what rank 0 prints, and whether a
model fits into this host's memory, asked before the kernel ends a rank without a word."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rank import Rank, Timing

LEARNING_RATE = 0.01
# Steps. So many let mode topo rebuild its buckets, see kWarmUpIterations and kTimedIterations in
# csrc/core/plan/plan_run.h.
WARM_UP = 8
GIB = 2**30


def parser(description: str, networks: Iterable[str], pixels: int | None
           ) -> argparse.ArgumentParser:
    """`pixels`: height and width by default; None: as published."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", choices=networks, required=True)
    parser.add_argument("--batch", type=int, required=True, help="images a rank and step")
    parser.add_argument("--pixels", type=int, default=pixels, help="height and width")
    parser.add_argument("--threads", type=int, default=1, help="intra-op threads (%(default)s)")
    return parser


def report(rank: Rank, timing: Timing, **per_rank: Any) -> None:
    """See Rank.report; adds what Horovod's counters grew by."""
    rank.report({"images_per_second": rank.size * rank.options.batch / timing.seconds,
                 "step_seconds": timing.seconds, "steps": timing.steps},
                counters=timing.counters, **per_rank)


def available_bytes(meminfo: str | None = None, cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """What processes can still get: of the host, or of the container's limit if that is less."""
    text = Path("/proc/meminfo").read_text() if meminfo is None else meminfo
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    free = int(fields["MemAvailable"].split()[0]) * 1024
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        occupied = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return free
    return free if limit == "max" else min(free, int(limit) - occupied)


def require_memory(rank: Rank, model: str, bytes_each: int) -> None:
    """Ends the program on every rank, with a message of rank 0, unless the ranks of each host find
    `bytes_each` there for each of them. `bytes_each` is what the model needs at least."""
    hosts = rank.allgather([socket.gethostname(), available_bytes()])
    for name in dict.fromkeys(host for host, _ in hosts):
        ranks = sum(host == name for host, _ in hosts)
        free = min(available for host, available in hosts if host == name)
        if ranks * bytes_each > free:
            if rank.rank == 0:
                print(f"{model} does not fit the memory of {name}: {ranks} ranks need at least "
                      f"{bytes_each / GIB:.1f} GiB each, {free / GIB:.1f} GiB are available; "
                      "remedy: fewer ranks, a smaller batch or fewer pixels", file=sys.stderr,
                      flush=True)
            rank.allgather(None)
            sys.exit(1)
