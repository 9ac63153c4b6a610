"""Which ranks share a node's reader: those that can reach each other's sockets and memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from horovod_opt.io.job.attendance import know_hosts
from horovod_opt.io.job.communication import Communication

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NETWORK = "/proc/self/ns/net"


class Node(NamedTuple):
    """The ranks of this rank's node, ascending, and its place among them."""

    ranks: tuple[int, ...]
    local_rank: int

    @property
    def is_reader(self) -> bool:
        """Whether this rank reads for the others."""
        return self.local_rank == 0


def find(ranks: Communication) -> Node:
    """Collective. A node is a running kernel and a network namespace: containers that have none in
    common are nodes of their own. Ranks can be told apart further by their `place`."""
    if ranks.size == 1:
        return Node((0,), 0)
    rows = [json.loads(row) for row in ranks.allgather(json.dumps(
        [f"{where()} {ranks.place}", os.uname().nodename]).encode())]
    places, hosts = zip(*rows)
    know_hosts(hosts)
    own = tuple(rank for rank, place in enumerate(places) if place == places[ranks.rank])
    return Node(own, own.index(ranks.rank))


def where() -> str:
    """This process's kernel, network namespace and user."""
    try:
        return f"{BOOT_ID.read_text().strip()} {os.readlink(NETWORK)} {os.geteuid()}"
    except OSError:  # no /proc: nothing is known, so nothing is shared
        return f"{os.uname().nodename} {os.getpid()}"
