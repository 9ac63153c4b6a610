"""The server of a parallel file system that is written to, and that can crash.

    python -m horovod_lab.io.storage.crashing_server FOLDER CAPACITY BANDWIDTH CACHE FD...

As file_server.py, but nodes can write. What they write is in this process's memory, at most
CAPACITY bytes, BANDWIDTH of them a second; FOLDER, with which it begins, never changes. CACHE is
`keep` if nodes may read what they have written from their page caches, else `drop`. Three more
lines of its input are

    crash AFTER SEED    when AFTER more changes and syncs are done; SEED is a number, or `none`
    restart
    record PATH         of operations from now on, which is before the first one

From a crash to the restart every request is answered by EIO.
"""

from __future__ import annotations

import errno
import heapq
import select
import sys
import time
from pathlib import Path
from typing import Optional

from horovod_lab.io.crashes.operations import RecordingTree, log_to
from horovod_lab.io.storage import fuse_changes as changes
from horovod_lab.io.storage import fuse_messages as fuse
from horovod_lab.io.storage.file_server import FileServer
from horovod_lab.io.storage.timing_model import Speed, WriteTimingModel
from horovod_lab.io.storage.writable_files import WritableFiles


class CrashingServer(FileServer):
    buffer = changes.BUFFER
    _files: WritableFiles
    _timing: WriteTimingModel
    _tree: RecordingTree
    _is_down = False
    _changes_left: Optional[int] = None  # changes and syncs until the crash
    _seed: Optional[int] = None

    def _obey(self, order: str, *more: str) -> None:
        if order == "crash":
            after, seed = more
            self._changes_left = int(after)
            self._seed = None if seed == "none" else int(seed)
            if not self._changes_left:
                self._crash()
        elif order == "restart":
            self._refuse_all()
            self._is_down, self._changes_left = False, None
        elif order == "record":
            self._tree.log = log_to(open(*more, "wb"))
        else:
            super()._obey(order)

    def _crash(self) -> None:
        self._is_down = True
        self._files.crash(self._seed)
        self._refuse_all()

    def _refuse_all(self) -> None:
        """What was asked before the crash, or while it lasts."""
        while ready := select.select(self._nodes, [], [], 0)[0] if self._nodes else []:
            for node in ready:
                self._take(node)
        while self._queue:
            _, _, node, request = heapq.heappop(self._queue)
            self._send(node, self._answer(request))

    def _answer_time(self, request: fuse.Request) -> float:
        now = time.monotonic()
        if self._is_down:
            return now
        if request.kind == changes.WRITE:
            return self._timing.write(now, changes.parse_write_size(request))
        if request.kind in changes.SYNCS:
            return self._timing.sync(now)
        return super()._answer_time(request)

    def _answer(self, request: fuse.Request) -> list[bytes]:
        if not self._is_down and request.kind in changes.CHANGES and self._changes_left is not None:
            if not self._changes_left:
                self._crash()
            else:
                self._changes_left -= 1
        if self._is_down:
            return fuse.refusal(request.unique, errno.EIO)
        return super()._answer(request)


def main(folder: str, capacity: str, bandwidth: str, cache: str, *nodes: str) -> None:
    tree = RecordingTree(Path(folder), int(capacity))
    server = CrashingServer(WritableFiles(tree, cache == "keep"), [int(node) for node in nodes],
                            WriteTimingModel(Speed(float(bandwidth))))
    server._tree = tree
    server.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
