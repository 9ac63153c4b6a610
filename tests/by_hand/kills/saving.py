"""The program that is killed: saves versions of random sizes, and records which have returned."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import Optional

import horovod_opt.io as hio

FAULTS = (None, "ENOSPC on fast", "ENOSPC on slow", "EIO on fast", "EIO on slow")
CALLS = ("write", "sendfile", "fsync", "rename", "mkdir")
ONE_IN = 20  # calls of those that can fail


def content(step: int) -> bytes:
    """Of a version; up to 2 MiB."""
    chance = random.Random(step)
    return chance.randbytes(64) * chance.randrange(1, 1 << 15)


def inject(fault: Optional[str], folders: dict[str, Path], chance: random.Random) -> None:
    """From now on calls of this process fail by chance in one of the folders."""
    if fault is None:
        return
    code, _, tier = fault.split()
    number, folder = getattr(errno, code), str(folders[tier])

    def place(argument: object) -> str:
        if isinstance(argument, int):
            return os.readlink(f"/proc/self/fd/{argument}")
        return str(argument)

    def wrap(real):
        def call(first, *more, **options):
            if place(first).startswith(folder) and not chance.randrange(ONE_IN):
                raise OSError(number, os.strerror(number))
            return real(first, *more, **options)

        return call

    for name in CALLS:
        setattr(os, name, wrap(getattr(os, name)))


def save_until_killed(folders: dict[str, Path], record: Path, fault: Optional[str],
                      seed: int) -> None:
    """Goes on with what is there; an error of a fault ends it as a kill does."""
    chance = random.Random(seed)
    buffer = hio.BurstBuffer(folders["fast"], folders["slow"], fast_bytes="8MiB")
    folder = buffer.restore()
    step = 0 if folder is None else int(folder.parent.name)
    file = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    inject(fault, folders, chance)

    def function(folder: Path) -> None:
        descriptor = os.open(folder / "state", os.O_WRONLY | os.O_CREAT)
        rest = memoryview(content(step))
        while rest:
            rest = rest[os.write(descriptor, rest[:1 << 18]):]
        os.close(descriptor)

    while True:
        step += 1
        try:
            buffer.save_with(step, function)
        except (hio.DataError, OSError):
            step -= 1
            continue
        os.write(file, b"%d\n" % step)
