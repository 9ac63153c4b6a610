"""On which hosts the ranks of a benchmark run: what is passed to horovodrun."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


class HostsError(ValueError):
    """A list of hosts that cannot be used; says which part of it, and what would be right."""


@dataclass(frozen=True)
class Hosts:
    """Names with the number of ranks that each takes, in order; none means this host alone."""

    capacities: tuple[tuple[str, int], ...] = ()

    def options(self) -> list[str]:
        """Of horovodrun."""
        if not self.capacities:
            return []
        return ["-H", ",".join(f"{name}:{ranks}" for name, ranks in self.capacities)]

    def on_first(self, ranks: int) -> int:
        """How many of the ranks are on the first host."""
        return min(ranks, self.capacities[0][1]) if self.capacities else ranks

    def check(self, ranks: int) -> None:
        """Raises HostsError unless there is room for the ranks."""
        room = sum(count for _, count in self.capacities)
        if self.capacities and ranks > room:
            raise HostsError(f"{ranks} ranks, but the hosts have {room} slots: "
                             f"{self.options()[1]}")


def from_option(text: str) -> Hosts:
    """From NAME:SLOTS,NAME:SLOTS."""
    capacities = []
    for part in text.split(","):
        match = re.fullmatch(r"([A-Za-z0-9_.-]+)(?::([1-9][0-9]*))?", part)
        if not match:
            raise HostsError(f"{part!r} is no host; write NAME:SLOTS, as in node1:4,node2:4")
        capacities.append((match[1], int(match[2] or 1)))
    return Hosts(tuple(capacities))


def from_file(path: Path) -> Hosts:
    """From lines of NAME slots=N, as in a host file of mpirun."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise HostsError(f"host file {path} cannot be read: {error}") from error
    capacities = []
    for number, line in enumerate(lines, 1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        match = re.fullmatch(r"slots=([1-9][0-9]*)", fields[1]) if len(fields) == 2 else None
        if len(fields) > 2 or (len(fields) == 2 and not match):
            raise HostsError(f"{path}, line {number}: {line.strip()!r} is not NAME slots=N")
        capacities.append((fields[0], int(match[1]) if match else 1))
    if not capacities:
        raise HostsError(f"host file {path} names no host")
    return Hosts(tuple(capacities))


def from_slurm(environ: Mapping[str, str]) -> Hosts:
    """The hosts of the Slurm allocation that this runs in; none outside of one.

    Slurm writes the tasks of each host as in 2(x3),1: twice three hosts, then one."""
    nodes = environ.get("SLURM_JOB_NODELIST")
    if not nodes:
        return Hosts()
    try:
        names = subprocess.run(["scontrol", "show", "hostnames", nodes], check=True, text=True,
                               capture_output=True).stdout.split()
    except (OSError, subprocess.CalledProcessError) as error:
        raise HostsError(f"the hosts of Slurm's {nodes!r} are unknown, scontrol failed: {error}; "
                         "remedy: name them with --hosts") from error
    tasks = environ.get("SLURM_TASKS_PER_NODE") or environ.get("SLURM_JOB_CPUS_PER_NODE", "")
    capacities = [int(match[1]) for match in re.finditer(r"(\d+)(?:\(x(\d+)\))?", tasks)
                  for _ in range(int(match[2] or 1))]
    if len(capacities) != len(names):
        raise HostsError(f"Slurm has {len(names)} hosts, but tasks for {len(capacities)} "
                         f"({tasks!r}); remedy: name them with --hosts")
    return Hosts(tuple(zip(names, capacities)))
