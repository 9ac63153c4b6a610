"""What is to be packed: each file's path, size, time and mode, and where its bytes are now."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from horovod_opt.io import formats
from horovod_opt.io.errors import DataError, InputError
from horovod_opt.io.formats import tar
from horovod_opt.io.formats.read_buffer import cannot_read

THREADS = 32  # that list folders and ask for sizes: it is the answers that take time
AT_ONCE = 256  # files that a thread asks for
OWN = ".horovod-opt-"  # how names begin that are no part of anybody's data
NAME_BYTES = 255  # what file systems take in a name

Ancestors = tuple  # of (device, inode) of the folders around a folder


class Place(NamedTuple):
    """Where the bytes of a file are: in a file of their own from 0 on, or in a tar. `status` is
    that file's size and time of change (ns) when it was listed."""

    path: str
    offset: int
    status: tuple[int, int]


@dataclass
class Listing:
    """Files in the order of their paths, which are relative and use "/". `folders`: those that
    hold nothing. `place(i)` says where the bytes of file i are."""

    paths: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    mtimes_ns: list[int] = field(default_factory=list)
    modes: list[int] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    place: Callable[[int], Place] = lambda i: Place("", 0, (0, 0))

    def classes(self) -> tuple[str, ...]:
        """The folders of the first level that are not hidden, as hio.open has them."""
        inside = {path.partition("/")[0] for path in self.paths if "/" in path}
        inside |= {path.partition("/")[0] for path in self.folders}
        return tuple(sorted(name for name in inside if not name.startswith(".")))

    def labels(self, classes: Sequence[str]) -> np.ndarray:
        """Of each file: its class, int32; 0 without classes; -1 for what is no sample, which are
        hidden files and, where there are classes, those beside them."""
        number = {name: i for i, name in enumerate(classes)}
        labels = np.empty(len(self.paths), np.int32)
        for i, path in enumerate(self.paths):
            first, slash, _ = path.partition("/")
            hidden = path.startswith(".") or "/." in path
            labels[i] = -1 if hidden else number.get(first, -1) if slash else -bool(classes)
        return labels


def list_source(sources: Sequence[str], names: Iterable[str] | None, strip: int) -> Listing:
    """Of a folder, of the files of a folder that `names` says, or of tars (paths or globs), whose
    members lose the first `strip` folders of their paths.

    Links are followed. Raises InputError for sources that do not fit together, DataError for what
    cannot be packed: names that are not UTF-8, come twice or lead out of the folder, pipes and
    devices, links in a circle or to nothing, links and sparse members in a tar.
    """
    if len(sources) == 1 and os.path.isdir(sources[0]):
        if strip:
            raise InputError(f"--strip-components {strip} is for tars, but {sources[0]} is a "
                             "folder; remedy: pack the folder that the paths begin in")
        root = os.path.abspath(sources[0])
        listing = _of_folder(root) if names is None else _of_names(root, names)
    elif names is not None:
        raise InputError(f"a list of files is of one folder, but the source is {sources[0]}; "
                         "remedy: the folder that the names are relative to")
    else:
        listing = _of_tars(sources, strip)
    if not listing.paths:
        raise DataError(f"{sources[0]}: no files; remedy: correct the path")
    return listing


def _of_folder(root: str) -> Listing:
    files: list[str] = []
    empty: list[str] = []
    level: list[tuple[str, Ancestors]] = [("", ())]
    with ThreadPoolExecutor(THREADS) as pool:
        while level:
            below: list[tuple[str, Ancestors]] = []
            for (folder, _), (names, folders) in zip(
                    level, pool.map(lambda item: _look_into(root, *item), level)):
                files += names
                below += folders
                if folder and not names and not folders:
                    empty.append(folder)
            level = below
    return _with_statuses(root, sorted(files), sorted(empty))


def _look_into(root: str, folder: str, above: Ancestors
               ) -> tuple[list[str], list[tuple[str, Ancestors]]]:
    """The files of a folder, and the folders in it, each with those around it."""
    path = os.path.join(root, folder)
    names, folders = [], []
    try:
        status = os.stat(path)
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            raise DataError(f"{path}: a link to a folder above itself; remedy: remove the link")
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith(OWN):
                    continue
                name = f"{folder}/{entry.name}" if folder else entry.name
                _check_text(os.path.join(root, name))
                if entry.is_dir():
                    folders.append((name, (*above, identity)))
                elif entry.is_file():
                    names.append(name)
                else:
                    raise DataError(f"{os.path.join(root, name)}: neither a file nor a folder, nor "
                                    "a link to one; remedy: remove it")
    except OSError as error:
        raise cannot_read(path, error) from error
    return names, folders


def _of_names(root: str, names: Iterable[str]) -> Listing:
    paths: dict[str, int] = {}
    for number, line in enumerate(names, 1):
        name = line.rstrip("\n")
        if not name:
            continue
        _check_text(name, f"line {number} of the list")
        path = os.path.normpath(os.path.relpath(name, root) if os.path.isabs(name) else name)
        if path == ".." or path.startswith("../"):
            raise DataError(f"line {number} of the list: {name!r} is not in {root}; remedy: names "
                            "relative to that folder, or below it")
        if path in paths:
            raise DataError(f"line {number} of the list: {name!r} was in line {paths[path]} "
                            "already; remedy: name each file once")
        paths[path] = number
    return _with_statuses(root, sorted(paths), [])


def _with_statuses(root: str, paths: list[str], empty: list[str]) -> Listing:
    listing = Listing(paths, folders=empty)
    groups = [paths[first:first + AT_ONCE] for first in range(0, len(paths), AT_ONCE)]
    with ThreadPoolExecutor(THREADS) as pool:
        for rows in pool.map(lambda group: [_status(root, path) for path in group], groups):
            for size, mtime_ns, mode in rows:
                listing.sizes.append(size)
                listing.mtimes_ns.append(mtime_ns)
                listing.modes.append(mode)
    listing.place = lambda i: Place(os.path.join(root, paths[i]), 0,
                                    (listing.sizes[i], listing.mtimes_ns[i]))
    return listing


def _status(root: str, name: str) -> tuple[int, int, int]:
    path = os.path.join(root, name)
    try:
        status = os.stat(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path}: not a file; remedy: leave it out")
    return status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode) & 0o777


def _of_tars(sources: Sequence[str], strip: int) -> Listing:
    found = formats.find(list(sources))
    if found.format != formats.TAR:
        raise DataError(f"{sources[0]}: {found.format}; remedy: a folder, or tars")
    rows: dict[str, tuple] = {}
    empty = set()
    for name in found.files:
        path = os.path.join(found.root, name)
        status = os.stat(path)
        for member in tar.members(path, status.st_size):
            steps = [step for step in member.name.split("/") if step not in ("", ".")][strip:]
            inner = "/".join(steps)
            if not steps:
                continue
            if max(len(step.encode()) for step in steps) > NAME_BYTES:
                raise DataError(f"{path}: member {inner!r}: a name of more than {NAME_BYTES} "
                                "bytes, which no file can have; remedy: rename it")
            if member.isdir():
                empty.add(inner)
                continue
            if inner in rows:
                raise DataError(f"{path}: member {inner!r} is also in {rows[inner][3].path}; "
                                "remedy: give each file a path of its own")
            rows[inner] = (member.size, int(member.mtime * 1e9), member.mode & 0o777,
                           Place(path, member.offset_data, (status.st_size, status.st_mtime_ns)))
    for path in rows:
        while path:
            path = path.rpartition("/")[0]
            if path in rows:
                raise DataError(f"member {path!r} is a file in {rows[path][3].path}, and a folder "
                                "of others; remedy: rename one")
            empty.discard(path)
    paths = sorted(rows)
    sizes, mtimes, modes, places = (list(column) for column in zip(
        *(rows[path] for path in paths))) if paths else ([], [], [], [])
    return Listing(paths, sizes, mtimes, modes, sorted(empty), lambda i: places[i])


def _check_text(name: str, where: str = "") -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DataError(f"{where + ': ' if where else ''}{ascii(name)}: its name is not UTF-8; "
                        "remedy: rename it") from None
