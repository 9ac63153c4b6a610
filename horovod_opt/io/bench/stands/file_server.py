"""The server of the simulated parallel file system: one process, which all nodes ask for files.

    python -m horovod_opt.io.bench.stands.file_server FOLDER FD...

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
import stat
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Optional

from horovod_opt.io.bench.stands import fuse_messages as fuse
from horovod_opt.io.bench.stands.pace import Pace, Speed

ROOT = 1  # the inode that FUSE gives the folder


class Tree:
    """Folders and files as they are when they are asked for first; inodes are numbers from ROOT
    on."""

    def __init__(self, folder: Path):
        self._paths: list[Optional[bytes]] = [None, os.fsencode(folder)]
        self._statuses: list[Optional[os.stat_result]] = [None, os.stat(folder)]
        self._inodes: dict[bytes, int] = {}
        self._names: dict[int, list[tuple[bytes, int, int]]] = {}
        self._files: dict[int, int] = {}

    def status(self, inode: int) -> os.stat_result:
        return self._statuses[inode]

    def find(self, folder: int, name: bytes) -> Optional[int]:
        """The inode of a name; None where there is nothing."""
        path = os.path.join(self._paths[folder], name)
        if path not in self._inodes:
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                return None
            self._inodes[path] = len(self._paths)
            self._paths.append(path)
            self._statuses.append(status)
        return self._inodes[path]

    def names(self, folder: int) -> list[tuple[bytes, int, int]]:
        """Name, inode and mode of all that is in it."""
        if folder not in self._names:
            inodes = [(name, self.find(folder, name))
                      for name in sorted(os.listdir(self._paths[folder]))]
            self._names[folder] = [(name, inode, self.status(inode).st_mode)
                                   for name, inode in inodes if inode is not None]
        return self._names[folder]

    def read(self, inode: int, offset: int, size: int) -> bytes:
        if inode not in self._files:
            self._files[inode] = os.open(self._paths[inode], os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._files[inode], size, offset)


class FileServer:
    """Answers what it reads from `nodes`, descriptors of /dev/fuse, when `pace` says."""

    def __init__(self, tree: Tree, nodes: list[int], pace: Pace):
        self._tree, self._pace = tree, pace
        self._nodes = set(nodes)
        self._began = 0.0  # CPU seconds of this process
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, int, fuse.Request]] = []

    def run(self) -> None:
        control = sys.stdin.fileno()
        while True:
            wait = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            ready = select.select([control, *self._nodes], [], [], wait)[0]
            if control in ready and not self._controlled():
                return
            for node in ready:
                if node in self._nodes:
                    self._take(node)
            while self._due and self._due[0][0] <= time.monotonic():
                _, _, node, request = heapq.heappop(self._due)
                self._send(node, self._answer(request))

    def _controlled(self) -> bool:
        """False at the end of the input."""
        line = sys.stdin.buffer.raw.readline().strip()
        if line == b"begin":
            self._began = time.process_time()
            self._pace.begin()
        elif line == b"release":
            self._pace.release()
        elif not line:
            return False
        cpu = time.process_time() - self._began
        print(json.dumps({**asdict(self._pace.counted), "server_cpu_seconds": cpu}), flush=True)
        return True

    def _take(self, node: int) -> None:
        try:
            request = fuse.Request.parsed(os.read(node, fuse.BUFFER))
        except OSError as error:
            if error.errno == errno.ENODEV:  # the node is gone
                self._nodes.discard(node)
            elif error.errno not in (errno.ENOENT, errno.EINTR):  # it was taken back
                raise
            return
        if request.kind == fuse.INIT:
            self._send(node, fuse.agreed(request))
        elif request.kind not in fuse.UNANSWERED:
            heapq.heappush(self._due, (self._when(request), next(self._numbers), node, request))

    def _when(self, request: fuse.Request) -> float:
        now = time.monotonic()
        if request.kind in fuse.FREE:
            return now
        if request.kind != fuse.READ:
            return self._pace.metadata(now)
        offset, size = request.reading()
        there = max(0, min(size, self._tree.status(request.inode).st_size - offset))
        return self._pace.read(now, request.inode, offset, there)

    def _answer(self, request: fuse.Request) -> list[bytes]:
        try:
            return fuse.answer(request.unique, *self._parts(request))
        except OSError as error:
            return fuse.refusal(request.unique, error.errno or errno.EIO)

    def _parts(self, request: fuse.Request) -> list[bytes]:
        """Of the answer. Raises OSError for what cannot be done."""
        tree, inode = self._tree, request.inode
        if request.kind == fuse.READ:
            return [tree.read(inode, *request.reading())]
        if request.kind == fuse.LOOKUP:
            found = tree.find(inode, request.name())
            return [fuse.entry(found or 0, found and tree.status(found))]
        if request.kind == fuse.GETATTR:
            return [fuse.attributes(inode, tree.status(inode))]
        if request.kind in (fuse.OPEN, fuse.OPENDIR):
            return [fuse.opened(stat.S_ISDIR(tree.status(inode).st_mode))]
        if request.kind == fuse.READDIR:
            return [fuse.listed(tree.names(inode), *request.reading())]
        if request.kind == fuse.STATFS:
            return [fuse.statistics()]
        if request.kind in fuse.FREE:
            return []
        raise OSError(errno.ENOSYS, f"FUSE request {request.kind}")

    def _send(self, node: int, parts: list[bytes]) -> None:
        try:
            os.writev(node, parts)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):  # who asked, or the node, is gone
                raise


def main(folder: str, *nodes: str) -> None:
    FileServer(Tree(Path(folder)), [int(one) for one in nodes], Pace(Speed())).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
