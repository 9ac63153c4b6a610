"""A folder as it is, for the nodes to read: names, attributes and data."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Optional

from horovod_lab.io.storage import fuse_messages as fuse


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


class ReadOnlyFiles:
    """What a file server answers about a folder."""

    init_reply = staticmethod(fuse.init_reply)

    def __init__(self, folder: Path):
        self._tree = Tree(folder)

    def size(self, inode: int) -> int:
        """Of the file, in bytes."""
        return self._tree.status(inode).st_size

    def parts(self, request: fuse.Request) -> list[bytes]:
        """Of the answer. Raises OSError for what cannot be done."""
        tree, inode = self._tree, request.inode
        if request.kind == fuse.READ:
            return [tree.read(inode, *request.parse_read())]
        if request.kind == fuse.LOOKUP:
            child = tree.find(inode, request.name())
            return [fuse.entry(child or 0, child and tree.status(child))]
        if request.kind == fuse.GETATTR:
            return [fuse.attributes(inode, tree.status(inode))]
        if request.kind in (fuse.OPEN, fuse.OPENDIR):
            return [fuse.open_reply(stat.S_ISDIR(tree.status(inode).st_mode))]
        if request.kind == fuse.READDIR:
            return [fuse.list_reply(tree.names(inode), *request.parse_read())]
        if request.kind == fuse.STATFS:
            return [fuse.statistics()]
        if request.kind in fuse.FREE:
            return []
        raise OSError(errno.ENOSYS, f"FUSE request {request.kind}")
