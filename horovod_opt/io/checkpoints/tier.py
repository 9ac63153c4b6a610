"""One storage of versions: how a part gets its name there, and how it loses it."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Optional

from horovod_opt.io.checkpoints import manifest as manifests
from horovod_opt.io.checkpoints.files import make_folder, remove, sync, walk, write
from horovod_opt.io.checkpoints.manifest import Manifest
from horovod_opt.io.errors import DataError, InputError

PART, GONE = ".part-", ".gone-"


class Tier:
    """`folder` is made, durably, if it is not there. `syncs`: how many files and folders it has
    synced. Raises InputError where it cannot hold versions."""

    def __init__(self, folder: Path, name: str):
        self.folder, self.name = folder, name
        self.syncs = 0
        self._durable: set[int] = set()  # versions that this process alone has made so
        try:
            make_folder(folder)
            probe = folder / f"{PART}probe-{secrets.token_hex(4)}"
            os.mkdir(probe)
            os.rmdir(probe)
        except OSError as error:
            raise InputError(f"{name}={str(folder)!r} cannot be written to: {error}; remedy: a "
                             "folder that this process may write to") from error
        try:
            self._sync(folder)
        except OSError as error:
            raise InputError(f"{name}={str(folder)!r} is on a file system that cannot sync a folder"
                             f" ({error}), so no name in it is durable; remedy: another one, of "
                             "a kernel, not of an object store") from error

    def new_part(self, step: int, rank: int) -> Path:
        """A folder for the saver. After a kill nobody knows its name."""
        part = self.folder / f"{PART}{step}-{rank}-{secrets.token_hex(4)}"
        os.mkdir(part)
        return part

    def commit(self, part: Path, manifest: Manifest) -> Path:
        """B1: all is synced, innermost first, then it gets its name, and that is synced, the new
        folder before the old one: durable when this returns."""
        write(part / manifests.NAME, manifest.to_bytes())
        return self.rename(part, manifest)

    def rename(self, part: Path, manifest: Manifest) -> Path:
        """The same for a part that has its MANIFEST."""
        for path in (path for group in walk(part) for path in group):
            self._sync(path)
        version = self.folder / str(manifest.step)
        path = version / str(manifest.rank)
        while True:
            with suppress(FileExistsError):
                os.mkdir(version)
            try:
                os.rename(part, path)
                break
            except FileNotFoundError:  # another rank has removed the empty folder
                if not part.exists():
                    raise
        self._sync(version)
        self._sync(self.folder)
        if manifest.ranks == 1:
            self._durable.add(manifest.step)
        return path

    def settle(self, steps: Iterable[int]) -> None:
        """What can be seen of these versions is durable, also if who has renamed it has died, or
        is another rank that has not synced it yet."""
        steps = [step for step in steps if step not in self._durable]
        for step in steps:
            self._sync(self.folder / str(step))
        if steps:
            self._sync(self.folder)

    def remove(self, step: int, rank: int) -> None:
        """B1: it loses its name, durably, before it loses any of its files."""
        version = self.folder / str(step)
        gone = version / f"{GONE}{rank}-{secrets.token_hex(4)}"
        try:
            os.rename(version / str(rank), gone)
            self._sync(version)
        except FileNotFoundError:
            return
        remove(gone)
        with suppress(OSError):  # parts of other ranks are there, or it is gone
            os.rmdir(version)

    def tidy(self, rank: int) -> None:
        """Removes what a kill has left of the parts of this rank, whose lock is held."""
        for entry in _names(self.folder):
            if entry.startswith(PART) and entry.split("-")[2:3] == [str(rank)]:
                remove(self.folder / entry)
        for step in self.steps():
            for entry in _names(self.folder / str(step)):
                if entry.startswith(f"{GONE}{rank}-"):
                    remove(self.folder / str(step) / entry)
            with suppress(OSError):
                os.rmdir(self.folder / str(step))

    def steps(self) -> list[int]:
        """Of which there is a part, or a folder for one."""
        return sorted(int(name) for name in _names(self.folder) if _is_number(name))

    def ranks(self, step: int) -> list[int]:
        """Whose parts of a version are here."""
        return sorted(int(name) for name in _names(self.folder / str(step)) if _is_number(name))

    def parts(self, rank: int) -> list[int]:
        """Steps of which this rank's part is here."""
        return [step for step in self.steps() if rank in self.ranks(step)]

    def path(self, step: int, rank: int) -> Path:
        return self.folder / str(step) / str(rank)

    def manifest(self, step: int, rank: int) -> Manifest:
        """Raises DataError: there is none, or it is that of another part."""
        manifest = manifests.read(self.path(step, rank))
        if (manifest.step, manifest.rank) != (step, rank):
            raise DataError(f"{self.path(step, rank)} has the MANIFEST of rank {manifest.rank} in "
                            f"version {manifest.step}; remedy: remove it")
        return manifest

    def is_complete(self, step: int) -> bool:
        """B1: whether the parts of all ranks of this version are here."""
        ranks = self.ranks(step)
        try:
            return bool(ranks) and len(ranks) == self.manifest(step, ranks[0]).ranks
        except DataError:
            return False

    def free_bytes(self) -> int:
        """Of the file system, for this user."""
        status = os.statvfs(self.folder)
        return status.f_bavail * status.f_frsize

    def _sync(self, path: Path) -> None:
        sync(path)
        self.syncs += 1


def is_full(error: Optional[BaseException]) -> bool:
    """Whether this error, or what it comes from, says that a storage has no room left."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and str(int(name)) == name
