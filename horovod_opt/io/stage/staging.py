"""A pack, or a part of it, to a node's disk. Its folder then has

    pack.hoi             the pack's index, all of it
    part-000003.tar      tars, each complete and compared
    .stage.json          says that it was staged, and which folders' files lie there as files
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from horovod_opt.io.errors import DataError, InputError, Missing
from horovod_opt.io.formats import compression, pack_folder
from horovod_opt.io.index import build_lock, pack_index
from horovod_opt.io.index.pack_index import PackIndex
from horovod_opt.io.index.tasks import run_all
from horovod_opt.io.memory_limit import show
from horovod_opt.io.native import crc32c
from horovod_opt.io.progress import Meter, ProgressFunction
from horovod_opt.io.stage.fetch import draft_of, fetch
from horovod_opt.io.stage.source import PIECE, RemoteFile, Source, join

NOTE = ".stage.json"
LOCK = ".stage.lock"
GAP = 256 << 10  # bytes that are read in vain rather than asked for anew


class Share(NamedTuple):
    """Which tars a node has: tar k is on the nodes k mod `nodes` and the `replicas` - 1 behind."""

    node: int = 0
    nodes: int = 1
    replicas: int = 1

    def parts(self, count: int) -> list[int]:
        """Of `count` tars those of this node."""
        return [k for k in range(count) if (self.node - k) % self.nodes < self.replicas]


class Staged(NamedTuple):
    """`parts`: numbers of the tars that this node has to have; `fetched`: bytes that came now;
    `files`: how many were written as files."""

    index: PackIndex
    parts: list[int]
    fetched: int
    files: int


def stage(source: Source, to: Path, share: Share = Share(), replicate: Sequence[str] = (),
          threads: int = 4, progress: ProgressFunction | None = None,
          check_room: Callable[[int], None] = lambda size: None) -> Staged:
    """Brings the share of a pack to the folder `to`, and the files of the folders `replicate`.
    What is there already is left; what was interrupted goes on. `check_room` is told how many bytes
    the share takes. Raises DataError for what cannot be read or written, is not as it was packed,
    or does not fit; InputError for a folder that the pack does not have."""
    with writable(to):
        to.mkdir(parents=True, exist_ok=True)
        if os.path.exists(source.where) and os.path.samefile(source.where, to):
            raise InputError(f"{to} is the pack itself; remedy: another folder, of the node")
        with build_lock.hold(str(to / LOCK)):
            return _Stage(source, to, share, replicate, threads, check_room).run(progress)


@contextmanager
def writable(to: Path) -> Iterator[None]:
    """What goes wrong with the folder `to` is a DataError."""
    try:
        yield
    except OSError as error:
        remedy = ("make room; the same command then goes on" if error.errno in (
            errno.ENOSPC, errno.EDQUOT) else "a folder that can be written to")
        raise DataError(f"{to}: cannot be written to: {error.strerror}; remedy: {remedy}"
                        ) from error


class _Stage:
    def __init__(self, source: Source, to: Path, share: Share, replicate: Sequence[str],
                 threads: int, check_room: Callable[[int], None]):
        self._source, self._to, self._threads = source, to, threads
        self._index = self._take_index()
        self._parts = share.parts(len(self._index.names))
        self._folders = [folder.strip("/") for folder in replicate]
        self._check_room = check_room

    def run(self, progress: ProgressFunction | None) -> Staged:
        index = self._index
        rows = self._rows_as_files()
        wanted = [k for k in self._parts if not self._is_there(k)]
        need = int(index.file_sizes[wanted].sum()) + int(index.raw_size[rows].sum())
        self._check_room(int(index.file_sizes[self._parts].sum() + index.raw_size[rows].sum()))
        require_room(self._to, need - sum(map(self._left, wanted)))
        meter = Meter(progress, int(index.file_sizes[wanted].sum() + index.size[rows].sum()))
        if self._folders:
            self._write_note({*self._folders, *_note(self._to).get("replicate", ())})
        with ThreadPoolExecutor(self._threads) as pool:
            run_all(pool, lambda k: fetch(self._source, self._remote(k), self._to / index.names[k],
                                       meter.advance, int(index.file_crcs[k])), wanted)
            runs = list(_runs(index, rows))
            run_all(pool, lambda run: self._write_files(run, meter.advance), runs)
        meter.finish()
        return Staged(index, self._parts, int(index.file_sizes[wanted].sum()), len(rows))

    def _take_index(self) -> PackIndex:
        """The pack's, which is in the folder before all else. Raises DataError for a folder with
        another pack's."""
        place = join(self._source.where, pack_folder.NAME)
        found = self._source.find(place)
        if not found:
            raise DataError(f"{place}: no such file, so {self._source.where} is no pack; remedy: "
                            "the folder that horovod-opt pack has made")
        target = self._to / pack_folder.NAME
        draft = self._to / f".{pack_folder.NAME}.part"
        draft.write_bytes(self._source.read(found[0].name, 0, found[0].size))
        try:
            index = pack_index.read(draft)
            with suppress(Missing):
                if pack_index.read(target).fingerprint != index.fingerprint:
                    raise DataError(f"{self._to}: another pack was staged there; remedy: "
                                    f"horovod-opt io stage --to {self._to} --remove, or another "
                                    "folder")
                return index
            there = pack_folder.tars(str(self._to))
            if there:
                raise DataError(f"{self._to}: there is {there[0]} in it, of no pack that was staged"
                                "; remedy: another folder")
            self._write_note(set())
            os.replace(draft, target)
            return index
        finally:
            draft.unlink(missing_ok=True)

    def _write_note(self, folders: set[str]) -> None:
        draft = self._to / f"{NOTE}.part"
        draft.write_text(json.dumps({"replicate": sorted(folders)}))
        os.replace(draft, self._to / NOTE)

    def _remote(self, k: int) -> RemoteFile:
        index = self._index
        place = join(self._source.where, index.names[k])
        return RemoteFile(place, int(index.file_sizes[k]), f"{index.file_crcs[k]:08x}")

    def _is_there(self, k: int) -> bool:
        path = self._to / self._index.names[k]
        return path.is_file() and path.stat().st_size == self._index.file_sizes[k]

    def _left(self, k: int) -> int:
        """What an interrupted call has left of a tar."""
        with suppress(OSError):
            return draft_of(self._remote(k), self._to / self._index.names[k]).stat().st_blocks * 512
        return 0

    def _rows_as_files(self) -> np.ndarray:
        """Of files below the folders that are replicated, and not yet there."""
        if not self._folders:
            return np.empty(0, np.int64)
        paths, rows = self._index.paths.strings(), []
        counts = dict.fromkeys(self._folders, 0)
        for row, path in enumerate(paths):
            for folder in self._folders:
                if path.startswith(folder + "/"):
                    counts[folder] += 1
                    if not self._is_same_file(row, path):
                        rows.append(row)
                    break
        for folder, count in counts.items():
            if not count:
                raise InputError(f"--replicate {folder}: the pack has no such folder; remedy: one "
                                 f"of its folders, as {os.path.dirname(paths[0]) or 'none'}")
        return np.array(rows, np.int64)

    def _is_same_file(self, row: int, path: str) -> bool:
        _check_path(path)
        try:
            status = os.lstat(self._to / path)
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (
            self._index.raw_size[row], self._index.mtime[row])

    def _write_files(self, rows: np.ndarray, advance: Callable[[int], None]) -> None:
        """Of a run in one tar, by one request."""
        index = self._index
        k, begin = int(index.file[rows[0]]), int(index.offset[rows[0]])
        end = int(index.offset[rows[-1]] + index.size[rows[-1]])
        local = self._to / index.names[k]
        if self._is_there(k):
            with open(local, "rb", buffering=0) as tar:
                data = os.pread(tar.fileno(), end - begin, begin)
        else:
            data = self._source.read(self._remote(k).name, begin, end)
        for row in rows.tolist():
            first, path = int(index.offset[row]) - begin, index.paths.raw(row).decode()
            contents = data[first:first + int(index.size[row])]
            if crc32c(contents) != index.crc[row]:
                raise DataError(f"{self._remote(k).name}: byte {index.offset[row]}, {path!r}: its "
                                "checksum is not the one that was packed; remedy: start again; if "
                                "that does not help, copy the pack there again")
            if index.raw_size[row] != index.size[row]:
                contents = compression.expand(contents, int(index.raw_size[row]), path)
            _write(self._to / path, contents, int(index.mode[row]), int(index.mtime[row]))
            advance(int(index.size[row]))


def remove(to: Path) -> int:
    """Removes what `stage` has brought to the folder `to`, and nothing else; returns the bytes. The
    folder goes, too, if nothing is left in it. Raises DataError where something cannot be removed.
    """
    note = _note(to)
    names = list(note.get("files", {}))
    with writable(to):
        with suppress(Missing):
            index = pack_index.read(to / pack_folder.NAME)
            if not (to / NOTE).is_file():
                raise DataError(f"{to}: this pack was not staged there, but made or copied; remedy:"
                                " remove it by hand, if it is not needed")
            prefixes = tuple(folder + "/" for folder in note.get("replicate", ()))
            names = [*(path for path in index.paths.strings()
                       if prefixes and path.startswith(prefixes)), *index.names, pack_folder.NAME]
        if not names:
            return 0
        with build_lock.hold(str(to / LOCK)):
            return _remove(to, names)


def _remove(to: Path, names: list[str]) -> int:
    size, folders = 0, set()
    drafts = [str(path.relative_to(to)) for path in to.rglob(".*.part")]
    indexes = [path.name for path in to.glob(".horovod-opt-index-*")]
    for name in [*drafts, *indexes, *names[:-1], NOTE, names[-1]]:
        _check_path(name)
        path = to / name
        with suppress(FileNotFoundError):
            size += path.lstat().st_size
            path.unlink()
            folders |= {parent for parent in path.parents if to in parent.parents}
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        with suppress(OSError):  # something else is in it
            folder.rmdir()
    (to / LOCK).unlink(missing_ok=True)
    with suppress(OSError):
        to.rmdir()
    return size


def _note(to: Path) -> dict:
    """What was staged beside a pack's tars; nothing where that is not said."""
    with suppress(OSError, ValueError):
        note = json.loads((to / NOTE).read_text())
        if isinstance(note, dict):
            return note
    return {}


def require_room(to: Path, need: int) -> None:
    """Raises DataError where a file system has less than `need` bytes."""
    free = shutil.disk_usage(to).free
    if need > free:
        raise DataError(f"{to}: {show(need)} are to be staged, but {show(free)} are free; remedy: "
                        "make room, another folder, or more nodes with fewer --replicas")


def _runs(index: PackIndex, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Rows that are read by one request."""
    run: list[int] = []
    for row in rows.tolist():
        if run:
            end = index.offset[run[-1]] + index.size[run[-1]]
            if (index.file[row] != index.file[run[0]] or index.offset[row] - end > GAP
                    or index.offset[row] + index.size[row] - index.offset[run[0]] > PIECE):
                yield np.array(run)
                run = []
        run.append(row)
    if run:
        yield np.array(run)


def _write(path: Path, contents: bytes, mode: int, mtime_ns: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        with open(draft, "wb") as file:
            file.write(contents)
        os.chmod(draft, mode)
        os.utime(draft, ns=(mtime_ns, mtime_ns))
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _check_path(path: str) -> None:
    """Raises DataError for one that leads out of the folder: the index was forged."""
    if path.startswith("/") or "\0" in path or ".." in path.split("/") or not path:
        raise DataError(f"the pack has a file named {path!r}, which leads out of its folder; "
                        "remedy: a pack that horovod-opt pack has made")
