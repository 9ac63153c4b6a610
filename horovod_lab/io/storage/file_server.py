"""The server of the simulated parallel file system: one process, which all nodes ask for files.

    python -m horovod_lab.io.storage.file_server FOLDER FD...

FD are /dev/fuse, opened and mounted, one of each node. Each line of its input is begin, release or
counters, and is answered by the counters in a line of JSON. It ends with its input, so with the
process that has started it, however that ends.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import json
import os
import select
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from horovod_lab.io.storage import fuse_messages as fuse
from horovod_lab.io.storage.read_only_files import ReadOnlyFiles
from horovod_lab.io.storage.timing_model import Speed, TimingModel


class Files(Protocol):
    """What is served."""

    def init_reply(self, request: fuse.Request) -> list[bytes]:
        """The answer to INIT."""

    def size(self, inode: int) -> int:
        """Of a file, in bytes."""

    def parts(self, request: fuse.Request) -> list[bytes]:
        """Of the answer. Raises OSError for what cannot be done."""


class FileServer:
    """Answers what it reads from `nodes`, descriptors of /dev/fuse, when `timing` says."""

    buffer = fuse.BUFFER  # bytes

    def __init__(self, files: Files, nodes: list[int], timing: TimingModel):
        self._files, self._timing = files, timing
        self._nodes = set(nodes)
        for node in nodes:
            os.set_blocking(node, False)  # what is ready may be taken back before it is read
        self._began = 0.0  # CPU seconds of this process
        self._numbers = itertools.count()
        self._queue: list[tuple[float, int, int, fuse.Request]] = []

    def run(self) -> None:
        control = sys.stdin.fileno()
        while True:
            wait = max(0.0, self._queue[0][0] - time.monotonic()) if self._queue else None
            ready = select.select([control, *self._nodes], [], [], wait)[0]
            if control in ready and not self._take_order():
                return
            for node in ready:
                if node in self._nodes:
                    self._take(node)
            while self._queue and self._queue[0][0] <= time.monotonic():
                _, _, node, request = heapq.heappop(self._queue)
                self._send(node, self._answer(request))

    def _take_order(self) -> bool:
        """False at the end of the input."""
        line = sys.stdin.buffer.raw.readline().decode().split()
        if not line:
            return False
        self._obey(*line)
        cpu = time.process_time() - self._began
        print(json.dumps({**asdict(self._timing.counts), "server_cpu_seconds": cpu}), flush=True)
        return True

    def _obey(self, order: str) -> None:
        if order == "begin":
            self._began = time.process_time()
            self._timing.begin()
        elif order == "release":
            self._timing.release()

    def _take(self, node: int) -> None:
        try:
            request = fuse.Request.parse(os.read(node, self.buffer))
        except OSError as error:
            if error.errno == errno.ENODEV:  # the node is gone
                self._nodes.discard(node)
            elif error.errno not in (errno.EAGAIN, errno.ENOENT, errno.EINTR):  # it was taken back
                raise
            return
        if request.kind == fuse.INIT:
            self._send(node, self._files.init_reply(request))
        elif request.kind not in fuse.UNANSWERED:
            entry = self._answer_time(request), next(self._numbers), node, request
            heapq.heappush(self._queue, entry)

    def _answer_time(self, request: fuse.Request) -> float:
        now = time.monotonic()
        if request.kind in fuse.FREE:
            return now
        if request.kind != fuse.READ:
            return self._timing.metadata(now)
        offset, size = request.parse_read()
        there = max(0, min(size, self._files.size(request.inode) - offset))
        return self._timing.read(now, request.inode, offset, there)

    def _answer(self, request: fuse.Request) -> list[bytes]:
        try:
            return fuse.answer(request.unique, *self._files.parts(request))
        except OSError as error:
            return fuse.refusal(request.unique, error.errno or errno.EIO)

    def _send(self, node: int, parts: list[bytes]) -> None:
        try:
            os.writev(node, parts)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):  # who asked, or the node, is gone
                raise


def main(folder: str, *nodes: str) -> None:
    files = ReadOnlyFiles(Path(folder))
    FileServer(files, [int(node) for node in nodes], TimingModel(Speed())).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
