"""Testbed N, a parallel file system: one server, which every node mounts for itself."""

from __future__ import annotations

import json
from contextlib import ExitStack

from horovod_lab.io.storage.timing_model import Speed
from horovod_lab.io.testbeds.limited_nodes import LimitedNodes
from horovod_lab.io.testbeds.mounted_server import MountedServer
from horovod_lab.io.testbeds.nodes import Nodes
from horovod_lab.io.testbeds.requirements import FUSE
from horovod_lab.io.testbeds.testbed import Counters

SPEED = Speed()  # the server's
SERVER = "horovod_lab.io.storage.file_server"


class ParallelFileSystem(LimitedNodes):
    name = "parallel"
    speed = {"bytes_per_second": SPEED.bandwidth, "delay_seconds": SPEED.delay,
             "going_back_seconds": SPEED.going_back}
    devices = (FUSE,)

    def _mount(self, stack: ExitStack, nodes: Nodes) -> None:
        self._server = MountedServer(stack, nodes, self.nodes, self.folder, self.name, SERVER,
                                     [self.folder], is_read_only=True)
        self._tell("begin")

    def _tell(self, line: str) -> Counters:
        return Counters(**json.loads(self._server.tell(line)))

    def begin(self) -> None:
        super().begin()
        self._tell("begin")

    def counters(self) -> Counters:
        return self._tell("counters")

    def release(self) -> None:
        super().release()
        self._tell("release")
