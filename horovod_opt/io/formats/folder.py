"""A folder of files: each is a sample, and the folders of the first level are the classes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats.read_buffer import cannot_read

THREADS = 16  # that list folders: on a parallel file system it is the answers that take time


class Listing(NamedTuple):
    """Sorted relative paths; the classes: sorted names of the folders in the first level; and names
    of the files beside these folders, which belong to none."""

    files: list[str]
    classes: tuple[str, ...]
    beside: tuple[str, ...] = ()

    def labels(self) -> list[int] | None:
        """The class of each file; None if there are no classes."""
        if not self.classes:
            return None
        number = {name: i for i, name in enumerate(self.classes)}
        return [number[path.partition("/")[0]] for path in self.files]


def listing(root: str) -> Listing:
    """All files below `root` but hidden ones.

    Where there are folders, they are the classes, numbered as torchvision's ImageFolder does, and
    files beside them belong to no class and are left out. Links are followed. Raises DataError
    for a folder that cannot be listed, a link in a circle or to nothing, a pipe or a device, and
    names that are not UTF-8.
    """
    top = list(_entries(root, ""))
    classes = tuple(sorted(name for name, is_folder in top if is_folder))
    if not classes:
        return Listing(sorted(name for name, _ in top), ())
    with ThreadPoolExecutor(THREADS) as pool:
        below = list(pool.map(lambda name: list(_walk(root, name, ())), classes))
    return Listing(sorted(path for paths in below for path in paths), classes,
                   tuple(sorted(name for name, is_folder in top if not is_folder)))


def _walk(root: str, folder: str, above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    path = os.path.join(root, folder)
    try:
        status = os.stat(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    identity = (status.st_dev, status.st_ino)
    if identity in above:
        raise DataError(f"{path}: a link to a folder above itself; remedy: remove the link")
    for name, is_folder in _entries(root, folder):
        if is_folder:
            yield from _walk(root, name, (*above, identity))
        else:
            yield name


def _entries(root: str, folder: str) -> Iterator[tuple[str, bool]]:
    """Path relative to `root` of what is in a folder, and whether it is a folder."""
    path = os.path.join(root, folder) if folder else root
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                _check(path, entry)
                yield (f"{folder}/{entry.name}" if folder else entry.name), entry.is_dir()
    except OSError as error:
        raise cannot_read(path, error) from error


def _check(folder: str, entry: os.DirEntry) -> None:
    name = os.path.join(folder, entry.name)
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        raise DataError(f"{ascii(name)}: its name is not UTF-8; remedy: rename it") from None
    if not (entry.is_dir() or entry.is_file()):
        raise DataError(f"{name}: neither a file nor a folder, nor a link to one; remedy: remove "
                        "it, or let its name begin with a dot")
