"""What a program asks of a file system, as it is recorded: changes, syncs, and marks between them.

Files and folders have numbers, in the order in which they were made; the root is 0.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Optional
from weakref import WeakKeyDictionary

from horovod_lab.io.storage.crashing_tree import CrashingTree
from horovod_lab.io.storage.durable_files import File, Folder, Node

MARK = ".mark-"  # a name that a program looks up, to say how far it is
FILE, FOLDER, LINK, UNLINK, RMDIR, RENAME, WRITE, TRUNCATE, SYNC, MARKED = (
    "file", "mkdir", "link", "unlink", "rmdir", "rename", "write", "truncate", "fsync", "mark")

Operation = tuple[Any, ...]  # a kind, and what it is done to


class RecordingTree(CrashingTree):
    """Operations are given to `log`, once they have succeeded: from the first one on, if it has
    begun empty."""

    log: Optional[Callable[[Operation], None]] = None

    def __init__(self, folder: Path, capacity: int):
        super().__init__(folder, capacity)
        self._numbers: WeakKeyDictionary[Node, int] = WeakKeyDictionary({self.root: 0})
        self._next = itertools.count(1)

    def _say(self, kind: str, *arguments: Any) -> None:
        if self.log is not None:
            self.log((kind, *(self._number(argument) for argument in arguments)))

    def _number(self, argument: Any) -> Any:
        if not isinstance(argument, (File, Folder)):
            return argument
        if argument not in self._numbers:
            self._numbers[argument] = next(self._next)
        return self._numbers[argument]

    def find(self, folder: Folder, name: bytes) -> Node:
        if name.startswith(MARK.encode()):
            self._say(MARKED, name.decode().removeprefix(MARK))
        return super().find(folder, name)

    def new_file(self, mode: int, uid: int, gid: int) -> File:
        file = super().new_file(mode, uid, gid)
        self._say(FILE, file)
        return file

    def new_folder(self, folder: Folder, name: bytes, mode: int, uid: int, gid: int) -> Folder:
        new = super().new_folder(folder, name, mode, uid, gid)
        self._say(FOLDER, new, folder, name)
        return new

    def link(self, file: Node, folder: Folder, name: bytes) -> None:
        super().link(file, folder, name)
        self._say(LINK, file, folder, name)

    def unlink(self, folder: Folder, name: bytes) -> None:
        super().unlink(folder, name)
        self._say(UNLINK, folder, name)

    def remove_folder(self, folder: Folder, name: bytes) -> None:
        super().remove_folder(folder, name)
        self._say(RMDIR, folder, name)

    def rename(self, folder: Folder, name: bytes, to: Folder, new: bytes, replaces: bool) -> None:
        super().rename(folder, name, to, new, replaces)
        self._say(RENAME, folder, name, to, new)

    def write(self, file: File, offset: int, data: bytes) -> None:
        super().write(file, offset, data)
        self._say(WRITE, file, offset, bytes(data))

    def truncate(self, file: Node, size: int) -> None:
        super().truncate(file, size)
        self._say(TRUNCATE, file, size)

    def sync(self, node: Node) -> None:
        super().sync(node)
        self._say(SYNC, node)


class Replay:
    """The same operations, done again on a tree in memory, which begins empty."""

    def __init__(self, empty: Path):
        self.tree = CrashingTree(empty, 1 << 40)
        self.nodes: dict[int, Node] = {0: self.tree.root}

    def apply(self, operation: Operation) -> None:
        kind, *arguments = operation
        tree, nodes = self.tree, self.nodes
        if kind == FILE:
            nodes[arguments[0]] = tree.new_file(0o100644, 0, 0)
        elif kind == FOLDER:
            number, folder, name = arguments
            nodes[number] = tree.new_folder(nodes[folder], name, 0o40755, 0, 0)
        elif kind == LINK:
            tree.link(nodes[arguments[0]], nodes[arguments[1]], arguments[2])
        elif kind == UNLINK:
            tree.unlink(nodes[arguments[0]], arguments[1])
        elif kind == RMDIR:
            tree.remove_folder(nodes[arguments[0]], arguments[1])
        elif kind == RENAME:
            folder, name, to, new = arguments
            tree.rename(nodes[folder], name, nodes[to], new, replaces=True)
        elif kind == WRITE:
            tree.write(nodes[arguments[0]], *arguments[1:])
        elif kind == TRUNCATE:
            tree.truncate(nodes[arguments[0]], arguments[1])
        elif kind == SYNC:
            tree.sync(nodes[arguments[0]])


def log_to(file: BinaryIO) -> Callable[[Operation], None]:
    """Each is in the file before its caller gets an answer."""
    def log(operation: Operation) -> None:
        pickle.dump(operation, file)
        file.flush()

    return log


def read(path: Path) -> Iterator[Operation]:
    with open(path, "rb") as file:
        while file.peek(1):
            yield pickle.load(file)
