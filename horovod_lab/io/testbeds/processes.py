"""What processes and all below them have used of the processors, and hold of the memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

KIB = 1024
FIELDS = ("Pss", "Pss_Anon", "Pss_File", "Pss_Shmem")


def families(pids: Sequence[int]) -> list[psutil.Process]:
    """These processes and all below them that run now."""
    members = []
    for pid in pids:
        try:
            root = psutil.Process(pid)
            members += [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
    return members


def cpu_seconds(pids: Sequence[int]) -> float:
    """Of the families so far, with those of their members that have ended and were waited for."""
    total = 0.0
    for process in families(pids):
        try:
            total += sum(process.cpu_times()[:4])  # own and ended children's, user and system
        except psutil.NoSuchProcess:
            continue
    return total


def memory(pids: Sequence[int]) -> dict[str, float]:
    """The families' proportional set sizes in bytes (FIELDS), summed: a page that several
    processes share counts once. `processes`: how many there are."""
    rollups = list(_rollups(families(pids)))
    return {"processes": len(rollups), **{name: sum(rollup.get(name, 0) for rollup in rollups)
                                          for name in FIELDS}}


def _rollups(processes: Sequence[psutil.Process]) -> Iterator[dict[str, float]]:
    for process in processes:
        try:
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        yield parse_rollup(text)


def parse_rollup(smaps: str) -> dict[str, float]:
    """The lines of smaps_rollup that count KiB, in bytes."""
    lines = (line.split() for line in smaps.splitlines())
    return {line[0].rstrip(":"): int(line[1]) * KIB for line in lines
            if len(line) == 3 and line[2] == "kB"}
