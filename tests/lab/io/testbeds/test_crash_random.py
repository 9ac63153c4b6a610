"""Random changes and syncs by two nodes, and a crash, beside a model of what must be left."""

from __future__ import annotations

import errno
import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from hypothesis import given, settings
from hypothesis import strategies as st

from horovod_lab.io.testbeds.crashing_storage import CrashingStorage

FOLDERS = ("", "a", "b")
PATHS = st.tuples(st.sampled_from(FOLDERS), st.sampled_from("xyz"))
NODES = st.integers(0, 1)
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["write", "append", "truncate", "sync", "unlink"]), NODES, PATHS),
    st.tuples(st.sampled_from(["rename", "link", "nameless"]), NODES, PATHS, PATHS),
    st.tuples(st.just("sync folder"), NODES, st.sampled_from(FOLDERS)),
    st.tuples(st.just("crash"), NODES))


@dataclass(eq=False)
class File:
    data: bytes = b""
    durable: bytes = b""


class Model:
    """Names of each folder, and those that last."""

    def __init__(self) -> None:
        self.names: dict[str, dict[str, File]] = {folder: {} for folder in FOLDERS}
        self.durable: dict[str, dict[str, File]] = {folder: {} for folder in FOLDERS}

    def list_folders(self) -> dict[str, dict[str, bytes]]:
        return {folder: {name: file.data for name, file in names.items()}
                for folder, names in self.names.items()}

    def do(self, step: int, action: str, *at) -> Optional[int]:
        """The errno, if it cannot be done."""
        if action == "crash":
            self.names = {folder: dict(names) for folder, names in self.durable.items()}
            for file in {file for names in self.names.values() for file in names.values()}:
                file.data = file.durable
        elif action == "sync folder":
            self.durable[at[0]] = dict(self.names[at[0]])
        else:
            return self._do_with_file(step, action, *at)
        return None

    def _do_with_file(self, step: int, action: str, path, new=None) -> Optional[int]:
        names, name = self.names[path[0]], path[1]
        if action == "nameless":
            if new[1] in self.names[new[0]]:
                return errno.EEXIST
            self.names[new[0]][new[1]] = File(data(step), data(step))
        elif action in ("write", "append"):
            file = names.setdefault(name, File())
            file.data = data(step) if action == "write" else file.data + data(step)
        elif name not in names:
            return errno.ENOENT
        elif action == "truncate":
            names[name].data = names[name].data[:3]
        elif action == "sync":
            names[name].durable = names[name].data
        elif action == "unlink":
            del names[name]
        elif action == "link":
            if new[1] in self.names[new[0]]:
                return errno.EEXIST
            self.names[new[0]][new[1]] = names[name]
        elif self.names[new[0]].get(new[1]) is not names[name]:
            self.names[new[0]][new[1]] = names.pop(name)
        return None


def data(step: int) -> bytes:
    return b"step %d;" % step


def do(storage: CrashingStorage, root: Path, step: int, action: str, *at) -> Optional[int]:
    """As the model, with the files of a node."""
    try:
        if action == "crash":
            storage.crash()
        elif action == "sync folder":
            sync(root / at[0])
        else:
            do_with_file(root, step, action, *[root / folder / name for folder, name in at])
    except OSError as error:
        return error.errno
    return None


def do_with_file(root: Path, step: int, action: str, path: Path, new: Optional[Path] = None
                 ) -> None:
    if action in ("write", "append"):
        with path.open("wb" if action == "write" else "ab") as file:
            file.write(data(step))
    elif action == "truncate":
        os.truncate(path, min(3, path.stat().st_size))
    elif action == "sync":
        sync(path)
    elif action == "unlink":
        path.unlink()
    elif action == "rename":
        path.rename(new)
    elif action == "link":
        os.link(path, new)
    else:
        file, top = os.open(root, os.O_TMPFILE | os.O_RDWR), os.open("/", os.O_RDONLY)
        try:
            os.write(file, data(step))
            os.fsync(file)
            os.link(f"/proc/self/fd/{file}", new, src_dir_fd=top)
        finally:
            os.close(file)
            os.close(top)


def sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def list_folders(root: Path) -> dict[str, dict[str, bytes]]:
    return {folder: {file.name: file.read_bytes() for file in (root / folder).iterdir()
                     if file.is_file()} for folder in FOLDERS}


numbers = itertools.count()


@settings(max_examples=40, deadline=None)
@given(operations=st.lists(OPERATIONS, max_size=20))
def test_a_crash_leaves_what_was_synced_and_nothing_else(crashing, operations):
    name = f"example{next(numbers)}"
    roots = [crashing.path(node) / name for node in (0, 1)]
    for folder in FOLDERS:
        (roots[0] / folder).mkdir()
    sync(roots[0])
    sync(crashing.path(0))
    model = Model()
    for step, (action, node, *at) in enumerate([*operations, ("crash", 0)]):
        error = model.do(step, action, *at)
        assert do(crashing, roots[node], step, action, *at) == error
        assert list_folders(roots[1 - node]) == model.list_folders()
