"""Data that `hio.open(..., stage_in=)` reads from a node's own disk: a folder for each data set.

Of a pack it is what stage() makes. Of other files `.stage.json` says which they are, and of which
version; they are complete if they are there.
"""

from __future__ import annotations

import glob
import json
import os
import posixpath
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Optional, Union

from horovod_opt.io.errors import DataError, InputError, tell
from horovod_opt.io.formats import pack_folder
from horovod_opt.io.formats.patterns import (
    Pattern,
    expand,
    refuse_joined,
    refuse_program,
    texts_of,
)
from horovod_opt.io.index import build_lock
from horovod_opt.io.index.tasks import run_all
from horovod_opt.io.job import nodes
from horovod_opt.io.job.agreement import require_equal, run_together
from horovod_opt.io.job.communication import Communication
from horovod_opt.io.memory_limit import parse, show
from horovod_opt.io.progress import Meter, ProgressLog, say
from horovod_opt.io.stage.fetch import fetch
from horovod_opt.io.stage.source import (
    RemoteFile,
    hash_of,
    is_chain_of_one_kind,
    is_url,
    join,
    open_source,
)
from horovod_opt.io.stage.staging import LOCK, NOTE, require_room, stage, writable

THREADS = 8  # that fetch a file each


def stage_together(ranks: Communication, pattern: Pattern,
                   stage_in: Union[str, os.PathLike, None], limit: Union[int, str, None]
                   ) -> Pattern:
    """Collective: the first rank of each node brings the data to the folder `stage_in`. Returns
    what to open there."""
    def check() -> tuple[list[str], str, Optional[int]]:
        if stage_in is None:
            raise InputError(f"stage_limit={tell(limit)} without stage_in; remedy: the folder that "
                             "it is the limit of")
        places = addresses(pattern)
        return (places, str(folder_of(places, stage_in)),
                None if limit is None else parse(limit, "stage_limit"))

    places, folder, limit_bytes = run_together(ranks, check)
    require_equal(ranks, {"pattern": places, "stage_in": folder, "stage_limit": limit_bytes},
                  "call open() with the same arguments on every rank")
    node = nodes.find(ranks)
    run_together(ranks, lambda: stage_data(places, Path(folder), limit_bytes)
                 if node.is_reader else None)
    return run_together(ranks, lambda: staged_pattern(Path(folder)))


def addresses(pattern: Pattern) -> list[str]:
    """A pattern's URLs, paths and globs, each absolute, sorted. Raises InputError if it is none,
    and for what is neither."""
    texts = texts_of(pattern)
    for text in texts:
        refuse_program(text)
        if is_chain_of_one_kind(text) or not is_url(text):
            refuse_joined(text)
    return sorted({path if is_url(path) else os.path.abspath(os.path.expanduser(path))
                   for text in texts for path in expand(text)})


def folder_of(places: list[str], stage_in: Union[str, os.PathLike]) -> Path:
    """Where a data set is staged: its name, and a hash of all that it is called."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", places[0].rstrip("/").rpartition("/")[2]).strip("._")
    root = os.path.abspath(os.path.expanduser(os.fspath(stage_in)))
    return Path(root, f"{name[:60] or 'data'}-{hash_of(chr(0).join(places))}")


def stage_data(places: list[str], folder: Path, limit: Optional[int]) -> None:
    """Brings the data to `folder`, where it is not there already; all that is staged beside it and
    it may have `limit` bytes together. Raises DataError and InputError as stage() does."""
    def check_room(size: int) -> None:
        others = {path.name: _size_of(path) for path in folder.parent.iterdir()
                  if path != folder and path.is_dir()}
        if limit is not None and sum(others.values()) + size > limit:
            there = ", ".join(f"{name} ({show(size)})" for name, size in sorted(others.items()))
            raise DataError(
                f"stage_limit={limit}: {places[0]} has {show(size)}, and in {folder.parent} is "
                f"{there or 'nothing else'}; remedy: a larger stage_limit=, or horovod-opt io stage"
                " --remove --to one of these folders")

    log = ProgressLog(f"staged of {places[0]}:")
    source = open_source(places[0])
    if len(places) == 1 and not glob.has_magic(places[0]) and source.find(
            join(places[0], pack_folder.NAME)):
        done = stage(source, folder, threads=THREADS, progress=log, check_room=check_room)
        fetched = done.fetched
    else:
        files = {}
        for place in places:
            found = open_source(place).find(place)
            if not found:
                raise DataError(f"{place}: no such files; remedy: correct it, or give a folder that"
                                " horovod-opt pack has made")
            files.update((file.name, (place, file)) for file in found)
        with writable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with build_lock.hold(str(folder / LOCK)):
                fetched = _stage_files(list(files.values()), folder, log, check_room)
    if fetched:
        say(f"{show(fetched)} of {places[0]} staged to {folder}")


def staged_pattern(folder: Path) -> Pattern:
    """What to open of it."""
    if pack_folder.is_pack(str(folder)):
        return str(folder)
    return [str(folder / name) for name in sorted(files_of(folder))]


def files_of(folder: Path) -> dict[str, list]:
    """Size and version of each file that was staged there, by name; none of a pack."""
    try:
        files = json.loads((folder / NOTE).read_text())["files"]
        return {str(name): list(of_file) for name, of_file in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _stage_files(files: list[tuple[str, RemoteFile]], folder: Path, log: ProgressLog,
                 check_room: Callable[[int], None]) -> int:
    """Returns how many bytes came."""
    root = posixpath.commonpath([posixpath.dirname(file.name) for _, file in files])
    named = {posixpath.relpath(file.name, root): (place, file) for place, file in files}
    versions = {name: [file.size, file.version] for name, (_, file) in named.items()}
    before = files_of(folder)
    for name in before:
        if before[name] != versions.get(name):
            (folder / name).unlink(missing_ok=True)
    draft = folder / f"{NOTE}.part"
    draft.write_text(json.dumps({"files": versions}))
    os.replace(draft, folder / NOTE)
    todo = [name for name, (_, file) in named.items() if not _has(folder / name, file.size)]
    check_room(sum(file.size for _, file in named.values()))
    require_room(folder, sum(named[name][1].size for name in todo))
    meter = Meter(log, sum(named[name][1].size for name in todo))

    def fetch_file(name: str) -> None:
        place, file = named[name]
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        fetch(open_source(place), file, folder / name, meter.advance)

    with ThreadPoolExecutor(THREADS) as pool:
        run_all(pool, fetch_file, todo)
    return sum(named[name][1].size for name in todo)


def _has(path: Path, size: int) -> bool:
    with suppress(OSError):
        return path.stat().st_size == size
    return False


def _size_of(folder: Path) -> int:
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(parent, name)).st_size
    return size
