"""Files and folders, and of each what lasts: as it was when it was synced."""

from __future__ import annotations

import os
import time
from typing import NamedTuple, Optional, Union

from horovod_lab.io.storage.file_content import Content


class Attributes(NamedTuple):
    """What a file system keeps of a file beside its data."""

    mode: int  # also says whether it is a folder
    uid: int
    gid: int
    atime_ns: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Attributes:
        return cls(status.st_mode, status.st_uid, status.st_gid, status.st_atime_ns,
                   status.st_mtime_ns, status.st_ctime_ns)


class File:
    """`durable`: attributes and content as they were synced."""

    def __init__(self, attributes: Attributes, content: Content):
        self.attributes, self.content = attributes, content
        self.links = self.opens = 0
        self.sync()

    def sync(self) -> None:
        self.durable = self.attributes, self.content.copy()


class Folder:
    """`durable`: its names when it was synced; `changes` since; `parent`: None of the root and of
    what was removed; `place`: its name that lasts."""

    def __init__(self, attributes: Attributes, parent: Optional[Folder]):
        self.attributes, self.parent = attributes, parent
        self.is_removed = False
        self.entries: dict[bytes, Node] = {}
        self.durable: dict[bytes, Node] = {}
        self.changes: list[dict[bytes, Optional[Node]]] = []
        self.place: Optional[tuple[Folder, bytes]] = None

    def change(self, names: dict[bytes, Optional[Node]]) -> None:
        """To what they stand for from now on; None: nothing."""
        apply(names, self.entries)
        self.changes.append(names)
        now = time.time_ns()
        self.attributes = self.attributes._replace(mtime_ns=now, ctime_ns=now)

    def sync(self) -> None:
        """A folder that has moved here is nowhere else from now on. If this one lasts only within
        it so far, the folders around this one are synced, too."""
        outer = self
        while not self._outer_folders().isdisjoint(self.entries.values()):
            outer = outer.parent
            outer.sync()
        for name, node in self.durable.items():
            if isinstance(node, Folder) and node.place == (self, name):
                node.place = None
        self.durable = dict(self.entries)
        self.changes.clear()
        for name, node in self.durable.items():
            if isinstance(node, Folder):
                if node.place:
                    folder, old = node.place
                    if folder.durable.get(old) is node:
                        del folder.durable[old]
                node.place = self, name

    def _outer_folders(self) -> set[Folder]:
        """In which it lasts."""
        folders, place = set(), self.place
        while place:
            folders.add(place[0])
            place = place[0].place
        return folders


Node = Union[File, Folder]


def apply(names: dict[bytes, Optional[Node]], to: dict[bytes, Node]) -> None:
    for name, node in names.items():
        if node is None:
            to.pop(name, None)
        else:
            to[name] = node
