"""A parallel file system for tests: nodes write to it, and it crashes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from horovod_lab.io.storage.timing_model import Speed
from horovod_lab.io.testbeds import requirements
from horovod_lab.io.testbeds.mounted_server import MountedServer
from horovod_lab.io.testbeds.nodes import PROGRAMS, Nodes
from horovod_lab.io.testbeds.testbed import Counters

SERVER = "horovod_lab.io.storage.crashing_server"
GIB = 1 << 30


@dataclass(frozen=True)
class WriteCounters(Counters):
    """`metadata_requests` are also those that change names and attributes; `syncs`: of files and
    folders."""

    write_requests: Optional[int] = None
    written_bytes: Optional[int] = None
    syncs: Optional[int] = None


class CrashingStorage:
    """One file server, mounted writable over `folder` on each node. A `with` makes and removes it.

    It begins with what is in the folder, as if synced. What is written is kept in memory until the
    end; the folder itself, as other processes see it, does not change. Needs root.

    Args:
        nodes: how many; each has mounts and a /dev/shm of its own, and the machine's network.
        is_paced: whether it has the speed of `--testbed parallel`, or answers at once.
        capacity: bytes that can be written before ENOSPC.
        bandwidth: of a paced one, bytes a second.
        keeps_cache: of one node: it reads what it has written from its page cache, as of a disk.
    """

    def __init__(self, folder: Path, nodes: int = 1, is_paced: bool = False, capacity: int = GIB,
                 bandwidth: float = Speed().bandwidth, keeps_cache: bool = False):
        self.folder, self.nodes = folder.resolve(), nodes
        self._is_paced, self._capacity, self._bandwidth = is_paced, capacity, bandwidth
        self._cache = "keep" if keeps_cache else "drop"

    @classmethod
    def check(cls) -> None:
        """Raises NoTestbed where it cannot be made."""
        requirements.check("a storage that crashes", PROGRAMS, (requirements.FUSE,))

    def __enter__(self) -> CrashingStorage:
        """Raises NoTestbed, or OSError if something that should work fails."""
        self.check()
        with ExitStack() as stack:
            self._node_set = stack.enter_context(closing(Nodes(self.nodes, own_networks=False)))
            arguments = [self.folder, self._capacity, self._bandwidth, self._cache]
            self._server = MountedServer(stack, self._node_set, self.nodes, self.folder,
                                         "crashing", SERVER, arguments, is_read_only=False)
            self._server.tell("begin")
            if not self._is_paced:
                self._server.tell("release")
            self._removal = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._removal.close()

    def path(self, node: int = 0) -> Path:
        """The folder as the node sees it, for this process and others of root's on no node."""
        return self._node_set.path(node, self.folder)

    def command(self, node: int, argv: Sequence[str]) -> list[str]:
        """What runs `argv` as a process of this node, where `folder` is the storage."""
        return [*self._node_set.enter(node), *argv]

    def crash(self, seed: Optional[int] = None) -> None:
        """All that is under way fails with EIO, and what was not synced is lost. With a `seed`, by
        chance some of it is not: real storage may have written anything, in any order."""
        self.crash_after(0, seed)
        self.restart()

    def crash_after(self, changes: int, seed: Optional[int] = None) -> None:
        """It crashes when, from now on, so many requests that change or sync something are done:
        the next one, and all others, fail with EIO until restart()."""
        self._server.tell(f"crash {changes} {'none' if seed is None else seed}")

    def restart(self) -> None:
        """After a crash; or there will be none."""
        self._server.tell("restart")

    def record(self, path: Path) -> None:
        """From now on, when nothing was changed yet, operations are written to this file, outside
        of the storage: what horovod_lab.io.crashes.states makes its crashes of."""
        self._server.tell(f"record {path}")

    def begin(self) -> None:
        """Counters count from 0."""
        self._server.tell("begin")

    def counters(self) -> WriteCounters:
        return WriteCounters(**json.loads(self._server.tell("counters")))
