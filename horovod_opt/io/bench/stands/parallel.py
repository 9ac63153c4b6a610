"""Stand N, a parallel file system: one server, which every node mounts for itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack

from horovod_opt.io.bench.stands.limited_nodes import LimitedNodes
from horovod_opt.io.bench.stands.nodes import Nodes
from horovod_opt.io.bench.stands.pace import Speed
from horovod_opt.io.bench.stands.requirements import FUSE, call
from horovod_opt.io.bench.stands.stand import Counters

SPEED = Speed()  # the server's
SERVER = "horovod_opt.io.bench.stands.file_server"


class Parallel(LimitedNodes):
    name = "parallel"
    speed = {"bytes_per_second": SPEED.bandwidth, "delay_seconds": SPEED.delay,
             "going_back_seconds": SPEED.going_back}
    devices = (FUSE,)

    def _mount(self, stack: ExitStack, nodes: Nodes) -> None:
        with ExitStack() as opened:
            files = []
            for node in range(self.nodes):
                files.append(os.open(FUSE, os.O_RDWR | os.O_CLOEXEC))
                opened.callback(os.close, files[-1])
                call([*nodes.enter(node, network=False), "mount", "--internal-only", "--types",
                      "fuse", "--options", f"fd={files[-1]},rootmode=40000,user_id=0,group_id=0,"
                      "allow_other,ro", f"horovod-opt-{self.name}", self.folder],
                     pass_fds=files[-1:])
            self._server = stack.enter_context(subprocess.Popen(
                [sys.executable, "-m", SERVER, str(self.folder), *map(str, files)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=files,
                start_new_session=True))
        self._tell("begin")

    def _tell(self, line: str) -> Counters:
        self._server.stdin.write(f"{line}\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise OSError("the file server has ended; its output says why")
        return Counters(**json.loads(answer))

    def begin(self) -> None:
        super().begin()
        self._tell("begin")

    def counters(self) -> Counters:
        return self._tell("counters")

    def release(self) -> None:
        super().release()
        self._tell("release")
