"""Simulated nodes: mounts, a /dev/shm and a network of their own, while this process lives.

Each is the namespaces of a process that waits for the end of its input, which comes with the end of
this process, however that ends. Nothing has a name that would stay.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

from horovod_lab.io.testbeds.requirements import SEARCH, call

PROGRAMS = ("unshare", "nsenter", "mount")
NETWORK_PROGRAMS = ("ip",)
ADDRESS = "10.214.{}.{}/16"  # of node i: its last 16 bits are i + 1
INTERFACE = "eth0"
WAIT = "mount -t tmpfs none /dev/shm && echo made && exec cat >/dev/null"


class Nodes:
    """So many, made by the constructor, until close(). The interfaces (INTERFACE) of several are
    connected; a single one, or all without `own_networks`, have the machine's. Raises OSError."""

    def __init__(self, number: int, own_networks: bool = True):
        self._stack = ExitStack()
        self.has_network = own_networks and number > 1
        try:
            self._keepers = [self._keep() for _ in range(number)]
            if self.has_network:
                self._connect()
        except BaseException:
            self.close()
            raise

    def _keep(self) -> int:
        """The process whose namespaces they are."""
        options = ["--mount", *(["--net"] if self.has_network else [])]
        keeper = self._stack.enter_context(subprocess.Popen(
            ["unshare", *options, "sh", "-c", WAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": SEARCH},
            start_new_session=True))  # not to be ended by Ctrl-C before its node's processes
        if not keeper.stdout.readline():
            raise OSError(f"a node cannot be made: {keeper.stderr.read().strip()}")
        return keeper.pid

    def _connect(self) -> None:
        """By virtual cables to a switch."""
        switch = self._keep()
        inside = f"nsenter --target {switch} --net ip link".split()
        call([*inside, *"add switch type bridge".split()])
        call([*inside, *"set switch up".split()])
        for node, keeper in enumerate(self._keepers):
            call(f"ip link add {INTERFACE} netns {keeper} type veth peer name node{node} "
                 f"netns {switch}".split())
            call([*inside, *f"set node{node} master switch up".split()])
            address = ADDRESS.format(*divmod(node + 1, 256))
            for line in (f"address add {address} dev {INTERFACE}", f"link set {INTERFACE} up",
                         "link set lo up"):
                call(f"nsenter --target {keeper} --net ip {line}".split())

    def enter(self, node: int, network: bool = True) -> list[str]:
        """What goes in front of a command, to run it in the node."""
        net = ["--net"] if network and self.has_network else []
        return ["nsenter", "--target", str(self._keepers[node]), "--mount", *net]

    def path(self, node: int, path: Path) -> Path:
        """Where this process, and others of root's outside the nodes, find that path of the
        node."""
        return Path(f"/proc/{self._keepers[node]}/root{path}")

    def close(self) -> None:
        """When no process is in them any more, their mounts are gone, too."""
        self._stack.close()
