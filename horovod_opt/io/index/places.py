"""Where an index is kept: beside the data, or in the user's cache where that is read-only.

Beside the data it is a hidden file, never a folder: in a folder of classes other tools, as
torchvision's ImageFolder, take every folder for a class. Earlier versions made one.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import Pattern, absolute, pack_folder, root_of
from horovod_opt.io.index import build_lock

NAME = ".horovod-opt-index"  # how files beside the data begin, and the folder of earlier versions
SUFFIX = ".hoi"
LOCK = ".lock"
ABANDONED = 3600.0  # seconds after which a file that is still being written has lost its writer


def candidates(pattern: Pattern, place: str | os.PathLike | None = None) -> tuple[Path, ...]:
    """Where the index of a pattern may be, the first choice first; only `place` if it is given. A
    pack has its own.

    The name has a hash of the pattern; in the cache also of the data's folder. Beside the data the
    folder is left out, so that nodes which mount it under different names find the same index. The
    folder of an earlier version is among them where it could not be moved.
    """
    patterns = absolute(pattern)
    root = root_of(patterns)
    if patterns == (root,) and pack_folder.is_pack(root):
        return (Path(root, pack_folder.NAME),)
    if place is not None:
        return (Path(os.path.abspath(os.path.expanduser(place))),)
    relative = [os.path.relpath(path, root) for path in patterns]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    name, old_folder = _hash(relative) + SUFFIX, Path(root, NAME)
    return (Path(root, f"{NAME}-{name}"), *([old_folder / name] if old_folder.is_dir() else []),
            Path(cache, "horovod-opt", "index", _hash([root, *relative]) + SUFFIX))


def move_old(pattern: Pattern) -> None:
    """Moves what an earlier version has left in a folder beside the data, and removes the folder,
    where that is permitted."""
    root = root_of(absolute(pattern))
    folder = Path(root, NAME)
    if folder.is_symlink() or not folder.is_dir():
        return
    with suppress(OSError):
        for path in folder.glob(f"*{SUFFIX}"):
            new_path = Path(root, f"{NAME}-{path.name}")
            if new_path.exists():
                path.unlink()
            else:
                path.rename(new_path)
        for path in folder.glob(f"*{SUFFIX}{LOCK}"):
            path.unlink()
        folder.rmdir()


@contextmanager
def lock(places: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """Yields the places from the first writable one on, while no other job writes there.

    Raises DataError if none of the places can be written.
    """
    refusals = []
    with ExitStack() as stack:
        for i, place in enumerate(places):
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(build_lock.hold(f"{place}{LOCK}"))
            except OSError as error:
                refusals.append(f"{place}: {error.strerror}")
                continue
            yield tuple(places[i:])
            return
    raise _nowhere(refusals)


def write(places: Sequence[Path], pieces: Sequence[bytes]) -> Path:
    """Writes to the first place that takes it; readers see the old file or all of the new one.

    Raises DataError, with each place and reason, if none does.
    """
    refusals = []
    for place in places:
        try:
            _write(place, pieces)
            return place
        except OSError as error:
            refusals.append(f"{place}: {error.strerror}")
    raise _nowhere(refusals)


def _write(place: Path, pieces: Sequence[bytes]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(place)
    temporary = Path(f"{place}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    with suppress(OSError):  # some file systems cannot sync a folder
        folder = os.open(place.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _remove_abandoned(place: Path) -> None:
    """What a writer has left that was killed; one writes for seconds."""
    for temporary in place.parent.glob(f"{place.name}.*.tmp"):
        with suppress(OSError):
            if time.time() - temporary.stat().st_mtime > ABANDONED:
                temporary.unlink()


def _hash(texts: Sequence[str]) -> str:
    return blake2b("\0".join(texts).encode(errors="surrogateescape"), digest_size=12).hexdigest()


def _nowhere(refusals: Sequence[str]) -> DataError:
    return DataError("the index cannot be written: " + "; ".join(refusals) + "; remedy: make room "
                     "or name another place: index= of open, --output of horovod-opt io index")
