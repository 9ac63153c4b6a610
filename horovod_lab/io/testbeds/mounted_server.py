"""A file server in a process of its own, and its mounts over a folder of each node."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from horovod_lab.io.testbeds.nodes import Nodes
from horovod_lab.io.testbeds.requirements import FUSE, call

OPTIONS = "rootmode=40000,user_id=0,group_id=0,allow_other"


class MountedServer:
    """Of a module that is called with `arguments` and a /dev/fuse of each node. `stack` gets what
    ends it; its mounts go with the nodes. Raises OSError."""

    def __init__(self, stack: ExitStack, nodes: Nodes, number: int, folder: Path, name: str,
                 module: str, arguments: Sequence[object], is_read_only: bool):
        options = f"{OPTIONS},ro" if is_read_only else OPTIONS
        with ExitStack() as descriptors:
            files = []
            for node in range(number):
                files.append(os.open(FUSE, os.O_RDWR | os.O_CLOEXEC))
                descriptors.callback(os.close, files[-1])
                call([*nodes.enter(node, network=False), "mount", "--internal-only", "--types",
                      "fuse", "--options", f"fd={files[-1]},{options}", f"horovod-opt-{name}",
                      folder], pass_fds=files[-1:])
            self._process = stack.enter_context(subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments), *map(str, files)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=files,
                start_new_session=True))

    def tell(self, line: str) -> str:
        """The answer. Raises OSError if there is none."""
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise OSError("the file server has ended; its output says why")
        return answer
