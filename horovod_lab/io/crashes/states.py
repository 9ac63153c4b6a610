"""Of a recorded program, what a crash after any of its operations can leave.

A unit is what a storage writes or does not write by itself: a change of names, a block of 4 KiB of
a write, the size that a write or truncate gives a file. All that was not synced may be lost, each
unit alone: every subset of up to 2^10 is looked at; of more units none, all, each alone, each
missing, and some drawn at random.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Optional

from horovod_lab.io.crashes import DRAWN, operations
from horovod_lab.io.crashes.operations import Operation, Replay
from horovod_lab.io.storage.durable_files import File, Folder, Node, apply
from horovod_lab.io.storage.file_content import BLOCK

MOST_SUBSETS = 1 << 10

Contents = dict[str, Optional[bytes]]  # of files by path; None: a folder


class Unit(NamedTuple):
    """`operation`: the number of what has made it."""

    operation: int
    node: int
    change: tuple  # ("names", index) | ("data", offset, bytes) | ("size", bytes)


class State(NamedTuple):
    """After operation `operation`, with all but `lost` of the `pending` units."""

    operation: int
    contents: Contents
    pending: tuple[Unit, ...]
    lost: tuple[Unit, ...]
    mark: str  # the last one that the program had come to

    @property
    def digest(self) -> bytes:
        digest = hashlib.sha1()
        for path, content in sorted(self.contents.items()):
            digest.update(f"{path}\0{-1 if content is None else len(content)}\0".encode())
            digest.update(content or b"")
        return digest.digest()


class Crashes:
    """`settled`: a mark at which the storage has written everything, as it does with time: from
    there on states are looked at, or from operation `first` on."""

    def __init__(self, empty: Path, recorded: Iterable[Operation], settled: str,
                 drawn: int = DRAWN, most: int = MOST_SUBSETS, first: int = 0):
        self.recorded = list(recorded)
        self._replay = Replay(empty)
        self._settled, self._drawn, self._most, self._first = settled, drawn, most, first
        self._pending: list[Unit] = []
        self._chance = random.Random(1)

    def states(self) -> Iterator[State]:
        """All of them; some are the same."""
        mark, has_settled = "", False
        for number, operation in enumerate(self.recorded):
            before = len(self._pending)
            self._replay.apply(operation)
            self._note(number, operation)
            if operation[0] == operations.MARKED:
                mark = operation[1]
                if mark == self._settled:
                    self._settle()
                    has_settled = True
            if not has_settled or number < self._first:
                continue
            # After a sync there is nothing new; at a mark more is promised.
            fresh = range(before, len(self._pending))
            if operation[0] == operations.MARKED or fresh:
                for kept in self._subsets(None if operation[0] == operations.MARKED else fresh):
                    yield State(number, self.contents(kept), tuple(self._pending), tuple(
                        unit for i, unit in enumerate(self._pending) if i not in kept), mark)

    def contents(self, kept: frozenset[int]) -> Contents:
        """What is there if of the pending units these are kept."""
        names = self._names(kept)
        contents: Contents = {}
        seen = {self._replay.tree.root}
        waiting = [("", self._replay.tree.root)]
        for path, folder in waiting:
            for name, node in sorted(names[folder].items()):
                below = f"{path}/{name.decode()}".lstrip("/")
                if isinstance(node, File):
                    contents[below] = self._bytes(node, kept)
                elif node not in seen:  # a folder with two names loses the later one
                    seen.add(node)
                    contents[below] = None
                    waiting.append((below, node))
        return contents

    def _note(self, number: int, operation: Operation) -> None:
        """Its units, or those that it ends."""
        kind, *arguments = operation
        pending, nodes = self._pending, self._replay.nodes
        if kind == operations.SYNC:  # with a folder, those around it may be synced
            self._pending = [unit for unit in pending if unit.node != arguments[0] and (
                unit.change[0] != "names" or nodes[unit.node].changes)]
        elif kind == operations.WRITE:
            node, offset, data = arguments
            end = offset + len(data)
            if end == nodes[node].content.size:
                pending.append(Unit(number, node, ("size", end)))
            while offset < end:
                size = min(BLOCK - offset % BLOCK, end - offset)
                pending.append(Unit(number, node, ("data", offset, data[:size])))
                offset, data = offset + size, data[size:]
        elif kind == operations.TRUNCATE:
            pending.append(Unit(number, arguments[0], ("size", arguments[1])))
        elif kind not in (operations.FILE, operations.MARKED):
            # The new folder first: a rename between folders is two changes.
            folders = {operations.RENAME: arguments[2:3] + arguments[:1],
                       operations.UNLINK: arguments[:1], operations.RMDIR: arguments[:1],
                       }.get(kind, arguments[1:2])
            for folder in dict.fromkeys(folders):
                pending.append(Unit(number, folder,
                                    ("names", len(nodes[folder].changes) - 1)))

    def _settle(self) -> None:
        for node in self._replay.nodes.values():
            node.sync()
        self._pending.clear()

    def _subsets(self, fresh: Optional[range]) -> Iterator[frozenset[int]]:
        """Of the numbers of units: those that are kept. With `fresh`, at least one of these is, or
        nothing: without them it was looked at before."""
        everything = frozenset(range(len(self._pending)))
        if 1 << len(everything) <= self._most:
            subsets = map(frozenset, itertools.chain.from_iterable(
                itertools.combinations(everything, size) for size in range(len(everything) + 1)))
        else:
            subsets = itertools.chain(
                [frozenset(), everything], (frozenset({i}) for i in everything),
                (everything - {i} for i in everything),
                (frozenset(i for i in everything if self._chance.random() < 0.5)
                 for _ in range(self._drawn)))
        return (kept for kept in subsets if fresh is None or not kept.isdisjoint(fresh))

    def _names(self, kept: frozenset[int]) -> dict[Folder, dict[bytes, Node]]:
        """Of each folder that may last. No rename loses what had a name that lasts, and has one
        now: then it has the old one, as in CrashingTree.crash()."""
        nodes, pending = self._replay.nodes, self._pending
        folders = [node for node in nodes.values() if isinstance(node, Folder)]
        names = {folder: dict(folder.durable) for folder in folders}
        for i in sorted(kept):
            kind, *which = pending[i].change
            if kind == "names":
                folder = nodes[pending[i].node]
                apply(folder.changes[which[0]], names[folder])
        there = {node for entries in names.values() for node in entries.values()}
        for folder in folders:
            for name, node in folder.durable.items():
                linked = not node.is_removed if isinstance(node, Folder) else node.links > 0
                if linked and node not in there:
                    names[folder][name] = node
        return names

    def _bytes(self, file: File, kept: frozenset[int]) -> bytes:
        durable = file.durable[1]
        content = bytearray(durable.read(0, durable.size))
        for i in sorted(kept):
            unit = self._pending[i]
            if self._replay.nodes[unit.node] is not file or unit.change[0] == "names":
                continue
            if unit.change[0] == "size":
                size = unit.change[1]
                del content[size:]
                content.extend(bytes(size - len(content)))
            else:
                _, offset, data = unit.change
                content.extend(bytes(max(0, offset + len(data) - len(content))))
                content[offset:offset + len(data)] = data
        return bytes(content)


def put(contents: Contents, folder: Path) -> None:
    """As files, into an empty folder."""
    for path, content in sorted(contents.items()):
        if content is None:
            (folder / path).mkdir(parents=True, exist_ok=True)
        else:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
