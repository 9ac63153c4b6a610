"""Files that nodes read and write: FUSE's requests as operations on a tree.

Nothing is valid for longer than its answer, so a node sees at once what another one has done.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Optional
from weakref import WeakKeyDictionary, WeakValueDictionary

from horovod_lab.io.storage import fuse_changes as changes
from horovod_lab.io.storage import fuse_messages as fuse
from horovod_lab.io.storage.crashing_tree import CrashingTree, File, Folder, Node

SECTOR = 512  # bytes, in which st_blocks counts
BLOCK_SECTORS = 8
AT_ONCE = 0  # seconds that names and attributes are valid


@dataclass
class Handle:
    """`names`: of a folder, when its list was begun."""

    node: Node
    names: list[tuple[bytes, int, int]] = field(default_factory=list)


class WritableFiles:
    """`keeps_cache`: a node reads from its page cache what it has written, as of a local disk."""

    def __init__(self, tree: CrashingTree, keeps_cache: bool = False):
        self._tree, self._keeps_cache = tree, keeps_cache
        self._handles = itertools.count(1)
        self._inodes = itertools.count(fuse.ROOT + 1)
        self._open_handles: dict[int, Handle] = {}
        self._number_all()
        self._answers: dict[int, Callable[[fuse.Request], list[bytes]]] = {
            fuse.LOOKUP: self._lookup, fuse.GETATTR: self._attributes, fuse.OPEN: self._open,
            fuse.OPENDIR: self._open, fuse.READ: self._read, fuse.READDIR: self._list,
            fuse.STATFS: self._statistics, fuse.FLUSH: self._flush, fuse.RELEASE: self._release,
            fuse.RELEASEDIR: self._release, fuse.DESTROY: lambda request: [],
            changes.SETATTR: self._set_attributes, changes.CREATE: self._create,
            changes.TMPFILE: self._create_nameless, changes.MKNOD: self._make_file,
            changes.MKDIR: self._make_folder, changes.UNLINK: self._unlink,
            changes.RMDIR: self._remove_folder, changes.RENAME: self._rename,
            changes.RENAME2: self._rename, changes.LINK: self._link, changes.WRITE: self._write,
            changes.FSYNC: self._sync, changes.FSYNCDIR: self._sync,
            changes.SYMLINK: self._refuse}

    def _number_all(self) -> None:
        """Inodes begin anew: no number of before means anything."""
        root = self._tree.root
        self._numbers: WeakKeyDictionary[Node, int] = WeakKeyDictionary({root: fuse.ROOT})
        self._nodes: WeakValueDictionary[int, Node] = WeakValueDictionary({fuse.ROOT: root})

    def init_reply(self, request: fuse.Request) -> list[bytes]:
        return changes.init_reply(request, self._keeps_cache)

    def crash(self, seed: Optional[int]) -> None:
        self._open_handles.clear()
        self._tree.crash(seed)
        self._number_all()

    def size(self, inode: int) -> int:
        node = self._nodes.get(inode)
        return node.content.size if isinstance(node, File) else 0

    def parts(self, request: fuse.Request) -> list[bytes]:
        if request.kind not in self._answers:
            raise OSError(errno.ENOSYS, f"FUSE request {request.kind}")
        return self._answers[request.kind](request)

    def _lookup(self, request: fuse.Request) -> list[bytes]:
        return [self._entry(self._tree.find(self._folder(request), request.name()))]

    def _attributes(self, request: fuse.Request) -> list[bytes]:
        node = self._node(request.inode)
        return [fuse.attributes(self._number(node), _status(node), AT_ONCE)]

    def _set_attributes(self, request: fuse.Request) -> list[bytes]:
        node = self._node(request.inode)
        sets_size, size = changes.new_size(request)
        if sets_size:
            self._tree.truncate(node, size)
        node.attributes = changes.new_attributes(request, node.attributes, self._tree.now())
        return self._attributes(request)

    def _open(self, request: fuse.Request) -> list[bytes]:
        return [self._open_node(self._node(request.inode))]

    def _create(self, request: fuse.Request) -> list[bytes]:
        """Or opens it, if another node has created it just now."""
        folder, arguments = self._folder(request), changes.parse_create(request)
        node = folder.entries.get(arguments.name)
        if node is None or arguments.flags & os.O_EXCL:
            node = self._tree.new_file(arguments.mode, request.uid, request.gid)
            self._tree.link(node, folder, arguments.name)
        elif isinstance(node, Folder):
            raise OSError(errno.EISDIR, os.fsdecode(arguments.name))
        elif arguments.flags & os.O_TRUNC:
            self._tree.truncate(node, 0)
        return [self._entry(node), self._open_node(node)]

    def _create_nameless(self, request: fuse.Request) -> list[bytes]:
        self._folder(request)
        mode = changes.parse_create(request).mode
        node = self._tree.new_file(stat.S_IFREG | stat.S_IMODE(mode), request.uid, request.gid)
        return [self._entry(node), self._open_node(node)]

    def _make_file(self, request: fuse.Request) -> list[bytes]:
        folder, arguments = self._folder(request), changes.parse_create(request)
        if not stat.S_ISREG(arguments.mode):
            return self._refuse(request)
        node = self._tree.new_file(arguments.mode, request.uid, request.gid)
        self._tree.link(node, folder, arguments.name)
        return [self._entry(node)]

    def _make_folder(self, request: fuse.Request) -> list[bytes]:
        arguments = changes.parse_create(request)
        node = self._tree.new_folder(self._folder(request), arguments.name, arguments.mode,
                                     request.uid, request.gid)
        return [self._entry(node)]

    def _unlink(self, request: fuse.Request) -> list[bytes]:
        self._tree.unlink(self._folder(request), request.name())
        return []

    def _remove_folder(self, request: fuse.Request) -> list[bytes]:
        self._tree.remove_folder(self._folder(request), request.name())
        return []

    def _rename(self, request: fuse.Request) -> list[bytes]:
        arguments = changes.parse_rename(request)
        if arguments.flags & ~changes.NO_REPLACING:
            raise OSError(errno.EINVAL, "a rename that exchanges")
        self._tree.rename(self._folder(request), arguments.name, self._node(arguments.folder),
                          arguments.new_name, replaces=not arguments.flags)
        return []

    def _link(self, request: fuse.Request) -> list[bytes]:
        inode, name = changes.parse_link(request)
        node = self._node(inode)
        self._tree.link(node, self._folder(request), name)
        return [self._entry(node)]

    def _refuse(self, request: fuse.Request) -> list[bytes]:
        raise OSError(errno.EPERM, "neither a file nor a folder")

    def _read(self, request: fuse.Request) -> list[bytes]:
        return [self._handle(request).node.content.read(*request.parse_read())]

    def _write(self, request: fuse.Request) -> list[bytes]:
        file, arguments = self._handle(request).node, changes.parse_write(request)
        offset = file.content.size if arguments.appends else arguments.offset
        self._tree.write(file, offset, arguments.data)
        return [changes.write_reply(len(arguments.data))]

    def _list(self, request: fuse.Request) -> list[bytes]:
        handle = self._handle(request)
        first, size = request.parse_read()
        if not first:
            handle.names = [(name, self._number(node), node.attributes.mode)
                            for name, node in sorted(handle.node.entries.items())]
        return [fuse.list_reply(handle.names, first, size)]

    def _sync(self, request: fuse.Request) -> list[bytes]:
        self._tree.sync(self._handle(request).node)
        return []

    def _statistics(self, request: fuse.Request) -> list[bytes]:
        return [fuse.statistics(self._tree.blocks, self._tree.free)]

    def _flush(self, request: fuse.Request) -> list[bytes]:
        self._handle(request)
        return []

    def _release(self, request: fuse.Request) -> list[bytes]:
        handle = self._open_handles.pop(changes.handle(request), None)
        if handle and isinstance(handle.node, File):
            handle.node.opens -= 1
        return []

    def _node(self, inode: int) -> Node:
        if inode not in self._nodes:
            raise OSError(errno.ESTALE, f"inode {inode}")
        return self._nodes[inode]

    def _folder(self, request: fuse.Request) -> Folder:
        return self._node(request.inode)

    def _handle(self, request: fuse.Request) -> Handle:
        number = changes.handle(request)
        if number not in self._open_handles:
            raise OSError(errno.EIO, "opened before the crash")
        return self._open_handles[number]

    def _number(self, node: Node) -> int:
        if node not in self._numbers:
            self._numbers[node] = number = next(self._inodes)
            self._nodes[number] = node
        return self._numbers[node]

    def _entry(self, node: Node) -> bytes:
        return fuse.entry(self._number(node), _status(node), AT_ONCE)

    def _open_node(self, node: Node) -> bytes:
        number = next(self._handles)
        self._open_handles[number] = Handle(node)
        if isinstance(node, File):
            node.opens += 1
        return changes.open_reply(number, self._keeps_cache and isinstance(node, File))


def _status(node: Node) -> fuse.Status:
    if isinstance(node, Folder):
        links = 2 + sum(isinstance(child, Folder) for child in node.entries.values())
        size = blocks = 0
    else:
        links, size = node.links, node.content.size
        blocks = node.content.block_count * BLOCK_SECTORS
    mode, uid, gid, atime, mtime, ctime = node.attributes
    return SimpleNamespace(
        st_mode=mode, st_nlink=links, st_uid=uid, st_gid=gid, st_size=size, st_blocks=blocks,
        st_atime_ns=atime, st_mtime_ns=mtime, st_ctime_ns=ctime)
