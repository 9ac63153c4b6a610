"""Files and folders of which a crash leaves what was synced: the least that POSIX promises.

A file's data, size and attributes last once the file was synced. A name lasts, or is gone for good,
once its folder was synced. Nothing else does, whatever was done before or after it.
"""

from __future__ import annotations

import errno
import os
import random
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Optional
from weakref import WeakSet

from horovod_lab.io.storage.durable_files import Attributes, File, Folder, Node, apply
from horovod_lab.io.storage.file_content import BLOCK, Content, Source

LONGEST = 255  # bytes of a name


class CrashingTree:
    """Begins with what is in a folder, as if that were synced; the folder itself never changes.

    All that cannot be done raises OSError, with the errno of Linux. `capacity`: bytes that can be
    written, in blocks of 4 KiB, to files that are there.
    """

    def __init__(self, folder: Path, capacity: int):
        self.blocks = capacity // BLOCK
        self.root = Folder(Attributes.of(folder.stat()), None)
        self._files: WeakSet[File] = WeakSet()
        self._last = 0  # ns
        self._load(self.root, folder)

    def _load(self, folder: Folder, path: Path) -> None:
        for entry in sorted(path.iterdir()):
            status = entry.lstat()
            if stat.S_ISDIR(status.st_mode):
                node = Folder(Attributes.of(status), folder)
                self._load(node, entry)
            elif stat.S_ISREG(status.st_mode):
                node = File(Attributes.of(status), Content(Source(entry), status.st_size))
                node.links = 1
                self._files.add(node)
            else:
                continue
            folder.entries[os.fsencode(entry.name)] = node
        folder.sync()

    @property
    def free(self) -> int:
        """Blocks."""
        return self.blocks - sum(file.content.block_count for file in self._files
                                 if file.links or file.opens)

    def now(self) -> int:
        """Nanoseconds, no two the same: nodes see by them that a file has changed."""
        self._last = max(self._last + 1, time.time_ns())
        return self._last

    def find(self, folder: Folder, name: bytes) -> Node:
        _check_name(name)
        if name not in folder.entries:
            raise OSError(errno.ENOENT, os.fsdecode(name))
        return folder.entries[name]

    def new_file(self, mode: int, uid: int, gid: int) -> File:
        """Without a name."""
        now = self.now()
        file = File(Attributes(mode, uid, gid, now, now, now), Content())
        self._files.add(file)
        return file

    def new_folder(self, folder: Folder, name: bytes, mode: int, uid: int, gid: int) -> Folder:
        now = self.now()
        new = Folder(Attributes(mode, uid, gid, now, now, now), folder)
        self._check_new(folder, name)
        folder.change({name: new})
        return new

    def link(self, file: Node, folder: Folder, name: bytes) -> None:
        if isinstance(file, Folder):
            raise OSError(errno.EPERM, "a second name of a folder")
        self._check_new(folder, name)
        folder.change({name: file})
        file.links += 1
        self.touch(file)

    def unlink(self, folder: Folder, name: bytes) -> None:
        node = self.find(folder, name)
        if isinstance(node, Folder):
            raise OSError(errno.EISDIR, os.fsdecode(name))
        folder.change({name: None})
        self._drop(node)

    def remove_folder(self, folder: Folder, name: bytes) -> None:
        node = self.find(folder, name)
        if isinstance(node, File):
            raise OSError(errno.ENOTDIR, os.fsdecode(name))
        if node.entries:
            raise OSError(errno.ENOTEMPTY, os.fsdecode(name))
        folder.change({name: None})
        self._drop(node)

    def rename(self, folder: Folder, name: bytes, to: Folder, new: bytes, replaces: bool) -> None:
        node = self.find(folder, name)
        _check_name(new)
        if to.is_removed:
            raise OSError(errno.ENOENT, os.fsdecode(new))
        target = to.entries.get(new)
        if target is not None and not replaces:
            raise OSError(errno.EEXIST, os.fsdecode(new))
        if isinstance(node, Folder) and node in _upwards(to):
            raise OSError(errno.EINVAL, "a folder into itself")
        if target is node:
            return
        if target is not None:
            _check_target(node, target, new)
        if to is folder:
            folder.change({name: None, new: node})
        else:
            to.change({new: node})
            folder.change({name: None})
        if isinstance(node, Folder):
            node.parent = to
        if target is not None:
            self._drop(target)
        self.touch(node)

    def write(self, file: File, offset: int, data: bytes) -> None:
        if file.content.count_new_blocks(offset, len(data)) > self.free:
            raise OSError(errno.ENOSPC, "the capacity is used up")
        file.content.write(offset, data)
        self.touch(file, is_written=True)

    def truncate(self, file: Node, size: int) -> None:
        if isinstance(file, Folder):
            raise OSError(errno.EISDIR, "the size of a folder")
        file.content.truncate(size)
        self.touch(file, is_written=True)

    def sync(self, node: Node) -> None:
        node.sync()

    def touch(self, node: Node, is_written: bool = False) -> None:
        now = self.now()
        times = {"mtime_ns": now} if is_written else {}
        node.attributes = node.attributes._replace(ctime_ns=now, **times)

    def crash(self, seed: Optional[int] = None) -> None:
        """Everything is as it was synced. With a `seed`, some of what was not synced is there all
        the same, each change of names and each file's content by chance."""
        chance = random.Random(seed)

        def survives() -> bool:
            return seed is not None and chance.random() < 0.5

        if seed is not None:
            self._keep_names(survives)
        for file in self._files:
            file.links = file.opens = 0
        files: set[File] = set()
        for folder in _breadth_first(self.root):
            folder.entries = dict(folder.durable)
            folder.changes.clear()
            for name, node in sorted(folder.entries.items()):
                if isinstance(node, Folder):
                    node.parent, node.place, node.is_removed = folder, (folder, name), False
                    continue
                node.links += 1
                if node not in files:
                    files.add(node)
                    if survives():
                        node.sync()
                    else:
                        node.attributes, durable = node.durable
                        node.content = durable.copy()

    def _keep_names(self, survives: Callable[[], bool]) -> None:
        """Some of the changes of names last. No rename loses what had a name that lasts, and has
        one now: then it has the old one."""
        before = [(folder, name, node) for folder in _breadth_first(self.root)
                  for name, node in folder.durable.items()]
        survivors = {node for _, _, node in before if _is_linked(node)}

        def keep(folder: Folder) -> None:
            for names in folder.changes:
                if survives():
                    apply(names, folder.durable)

        _breadth_first(self.root, keep)
        while True:
            nodes = {node for folder in _breadth_first(self.root)
                     for node in folder.durable.values()}
            losses = [entry for entry in before if entry[2] in survivors and entry[2] not in nodes]
            if not losses:
                return
            for folder, name, node in losses:
                folder.durable[name] = node
                if folder is not self.root:
                    survivors.add(folder)

    def _check_new(self, folder: Folder, name: bytes) -> None:
        _check_name(name)
        if folder.is_removed:
            raise OSError(errno.ENOENT, os.fsdecode(name))
        if name in folder.entries:
            raise OSError(errno.EEXIST, os.fsdecode(name))

    def _drop(self, node: Node) -> None:
        """A name less."""
        if isinstance(node, Folder):
            node.parent, node.is_removed = None, True
        else:
            node.links -= 1
            self.touch(node)


def _is_linked(node: Node) -> bool:
    return not node.is_removed if isinstance(node, Folder) else node.links > 0


def _check_name(name: bytes) -> None:
    if len(name) > LONGEST:
        raise OSError(errno.ENAMETOOLONG, os.fsdecode(name))


def _check_target(node: Node, target: Node, name: bytes) -> None:
    if isinstance(target, File):
        if isinstance(node, Folder):
            raise OSError(errno.ENOTDIR, os.fsdecode(name))
    elif isinstance(node, File):
        raise OSError(errno.EISDIR, os.fsdecode(name))
    elif target.entries:
        raise OSError(errno.ENOTEMPTY, os.fsdecode(name))


def _upwards(folder: Folder) -> Iterator[Folder]:
    """It, and all in which it is."""
    while folder:
        yield folder
        folder = folder.parent


def _breadth_first(root: Folder, arrive: Callable[[Folder], None] = lambda folder: None
                   ) -> list[Folder]:
    """The durable folders; one with two names loses the later name."""
    folders, members = [root], {root}
    for folder in folders:
        arrive(folder)
        for name, node in sorted(folder.durable.items()):
            if isinstance(node, Folder):
                if node in members:
                    del folder.durable[name]
                else:
                    members.add(node)
                    folders.append(node)
    return folders
