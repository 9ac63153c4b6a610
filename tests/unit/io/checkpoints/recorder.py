"""Records what this process asks of the file system below a folder, as horovod_lab.io.crashes
replays it: in place of `os`'s functions, so for programs that use no others to write."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional

from horovod_lab.io.crashes.operations import MARK, MARKED, Operation, RecordingTree
from horovod_lab.io.storage.durable_files import Folder, Node

NAMES = ("open", "close", "write", "sendfile", "fsync", "rename", "mkdir", "unlink", "rmdir")


class Recorder:
    """`operations`: those so far. `folder` exists and is empty."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.operations: list[Operation] = []
        self._tree = RecordingTree(folder, 1 << 30)
        self._tree.log = self.operations.append
        self._files: dict[int, tuple[Node, list[int]]] = {}
        self._lock = threading.RLock()
        self._real = {name: getattr(os, name) for name in NAMES}

    def mark(self, name: str) -> None:
        with self._lock:
            self.operations.append((MARKED, name.removeprefix(MARK)))

    @contextmanager
    def recording(self) -> Iterator[None]:
        for name in NAMES:
            setattr(os, name, getattr(self, f"_{name}"))
        try:
            yield
        finally:
            for name, function in self._real.items():
                setattr(os, name, function)

    def _place(self, path: object) -> Optional[tuple[Folder, bytes]]:
        """The folder that it is in, and its name; None: it is elsewhere."""
        if isinstance(path, int):
            return None
        path = Path(os.path.abspath(path))
        if path == self.folder:
            return self._tree.root, b""
        if self.folder not in path.parents:
            return None
        folder = self._tree.root
        for name in path.relative_to(self.folder).parts[:-1]:
            folder = folder.entries[name.encode()]
        return folder, path.name.encode()

    def _open(self, path, flags, mode=0o777, *, dir_fd=None):
        with self._lock:
            place = None if dir_fd is not None else self._place(path)
            file = self._real["open"](path, flags, mode, dir_fd=dir_fd)
            if place is not None:
                folder, name = place
                node = folder.entries.get(name) if name else folder
                if node is None:
                    node = self._tree.new_file(stat.S_IFREG | 0o644, 0, 0)
                    self._tree.link(node, folder, name)
                elif flags & os.O_TRUNC:
                    self._tree.truncate(node, 0)
                self._files[file] = node, [0]
            return file

    def _close(self, file):
        with self._lock:
            self._files.pop(file, None)
            self._real["close"](file)

    def _write(self, file, data):
        with self._lock:
            done = self._real["write"](file, data)
            self._written(file, bytes(data)[:done])
            return done

    def _sendfile(self, target, source, offset, count):
        with self._lock:
            done = self._real["sendfile"](target, source, offset, count)
            self._written(target, os.pread(source, done, offset))
            return done

    def _written(self, file: int, data: bytes) -> None:
        if data and file in self._files:
            node, offset = self._files[file]
            self._tree.write(node, offset[0], data)
            offset[0] += len(data)

    def _fsync(self, file):
        with self._lock:
            if file in self._files:  # what is recorded is not slow
                self._tree.sync(self._files[file][0])
            else:
                self._real["fsync"](file)

    def _rename(self, source, target, **options):
        with self._lock:
            places = self._place(source), self._place(target)
            self._real["rename"](source, target, **options)
            if None not in places:
                self._tree.rename(*places[0], *places[1], replaces=True)

    def _mkdir(self, path, mode=0o777, *, dir_fd=None):
        with self._lock:
            place = self._place(path)
            self._real["mkdir"](path, mode, dir_fd=dir_fd)
            if place is not None:
                self._tree.new_folder(*place, stat.S_IFDIR | 0o755, 0, 0)

    def _unlink(self, path, **options):
        with self._lock:
            place = self._place(path)
            self._real["unlink"](path, **options)
            if place is not None:
                self._tree.unlink(*place)

    def _rmdir(self, path, **options):
        with self._lock:
            place = self._place(path)
            self._real["rmdir"](path, **options)
            if place is not None:
                self._tree.remove_folder(*place)
