"""Calls of the file system, each as POSIX names it: what is synced, and when, is in their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from horovod_opt.io.errors import InputError

BLOCK = 8 << 20  # bytes of a read or a copy: few enough calls that Python's lock is rarely taken


@contextmanager
def opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Its descriptor."""
    file = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        yield file
    finally:
        os.close(file)


def sync(path: Path) -> None:
    """A file's data, or a folder's names; also what other processes have written."""
    with opened(path) as file:
        os.fsync(file)


def walk(folder: Path) -> tuple[list[Path], list[Path]]:
    """All files below a folder, and all folders, innermost first, itself last. Raises
    InputError: something is neither."""
    files, folders = [], []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                inner_files, inner_folders = walk(Path(entry.path))
                files += inner_files
                folders += inner_folders
            elif entry.is_file(follow_symlinks=False):
                files.append(Path(entry.path))
            else:
                raise InputError(f"{entry.path} is neither a file nor a folder; remedy: a saver "
                                 "that makes nothing else")
    return files, [*folders, folder]


def write(path: Path, data: bytes) -> None:
    """A new file."""
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest):]


def copy(source: Path, target: Path, advance: Callable[[int], None]) -> None:
    """Into a new file, inside the kernel; `advance` is called with numbers of bytes."""
    with opened(source) as reads, opened(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as writes:
        offset = 0
        while done := os.sendfile(writes, reads, offset, BLOCK):
            offset += done
            advance(done)


def make_folder(folder: Path) -> None:
    """Durable, with those around it, as far as they were made here."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with suppress(FileExistsError):  # another rank has made it
        os.mkdir(folder)
    sync(folder.parent)


def remove(path: Path) -> None:
    """A file, or a folder with all that is in it; what is gone already is no error."""
    try:
        entries = list(os.scandir(path))
    except FileNotFoundError:
        return
    except NotADirectoryError:
        with suppress(FileNotFoundError):
            os.unlink(path)
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            remove(Path(entry.path))
        else:
            with suppress(FileNotFoundError):
                os.unlink(entry.path)
    with suppress(FileNotFoundError):
        os.rmdir(path)
