"""MANIFEST: what a part of a version consists of, so that it can be told whether it is whole."""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from horovod_opt.io.checkpoints.files import BLOCK, opened, walk
from horovod_opt.io.errors import DataError, InputError
from horovod_opt.io.native import crc32c

NAME = "MANIFEST"
FORMAT = 1
LARGEST = 64 << 20  # bytes of a MANIFEST: more is none


class Entry(NamedTuple):
    """Of a file: bytes, and their CRC-32C."""

    size: int
    crc: int


class Manifest(NamedTuple):
    """Of the part of rank `rank` of `ranks`; `entries` by the file's path in it."""

    step: int
    rank: int
    ranks: int
    entries: dict[str, Entry]

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self.entries.values())

    @classmethod
    def of(cls, folder: Path, step: int, rank: int, ranks: int) -> Manifest:
        """Of all files that are there, which it reads: they come from the page cache. Raises
        InputError: they cannot be a part."""
        files, _ = walk(folder)
        entries = {path.relative_to(folder).as_posix(): entry_of(path) for path in files}
        if not entries or NAME in entries:
            what = f"a file {NAME}, which is not the saver's" if entries else "no files"
            raise InputError(f"version {step} has {what}; remedy: save into the folder that save() "
                             "gives, under other names")
        return cls(step, rank, ranks, entries)

    def to_bytes(self) -> bytes:
        content = {"format": FORMAT, "step": self.step, "rank": self.rank, "ranks": self.ranks,
                   "files": {name: list(entry) for name, entry in self.entries.items()}}
        body = json.dumps(content, indent=0).encode()
        return body + f"\n{crc32c(body):08x}\n".encode()


def read(folder: Path) -> Manifest:
    """Raises DataError: it is missing, damaged or forged, or names a file outside of its folder."""
    path = folder / NAME
    try:
        with opened(path) as file:
            data = os.read(file, LARGEST)
        body, checksum = data.removesuffix(b"\n").rsplit(b"\n", 1)
        if int(checksum, 16) != crc32c(body):
            raise ValueError("its checksum is another")
        return _parse(json.loads(body))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is not what was saved: {error}; remedy: an older version, as "
                        "restore() takes; remove this one") from error


def _parse(content: dict[str, Any]) -> Manifest:
    if content["format"] != FORMAT:
        raise ValueError(f"format {content['format']!r}, of another release")
    step, rank, ranks = (content[name] for name in ("step", "rank", "ranks"))
    entries = {name: Entry(*entry) for name, entry in content["files"].items()}
    numbers = [step, rank, ranks, *(number for entry in entries.values() for number in entry)]
    if not all(type(number) is int and number >= 0 for number in numbers) or rank >= ranks:
        raise ValueError("a number in it is none")
    for name in entries:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name or name == NAME:
            raise ValueError(f"it names {name!r}")
    return Manifest(step, rank, ranks, entries)


def entry_of(path: Path) -> Entry:
    size = crc = 0
    with opened(path) as file:
        while block := os.read(file, BLOCK):
            size, crc = size + len(block), crc32c(block, crc)
    return Entry(size, crc)


def check(folder: Path, manifest: Manifest) -> None:
    """B4: raises DataError unless the files are those of `manifest`, with the same bytes."""
    try:
        names = {path.relative_to(folder).as_posix() for path in walk(folder)[0]} - {NAME}
        if names != set(manifest.entries):
            odd = sorted(names ^ set(manifest.entries))[0]
            raise ValueError(f"{odd} is " + ("missing" if odd in manifest.entries else
                                             "not of this version"))
        for name, entry in manifest.entries.items():
            there = entry_of(folder / name)
            if there != entry:
                what = ("other bytes than were saved" if there.size == entry.size else
                        f"{there.size} bytes of {entry.size}")
                raise ValueError(f"{name} has {what}")
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} is not what was saved: {error}; remedy: an older version, as "
                        "restore() takes; remove this one") from error
