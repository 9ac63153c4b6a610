"""Writes a pack: tars, each complete or not there, and at the end the index.

Names in the folder say how far it is: `.packing` is there until the index is; `.NAME.tmp` is being
written; `.NAME.json` has what the index will say of the tar NAME, and is there before that is.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from horovod_opt.io.errors import DataError, InputError, Missing
from horovod_opt.io.formats import compression, pack_folder
from horovod_opt.io.formats.columns import Texts
from horovod_opt.io.index import build_lock, pack_index
from horovod_opt.io.index.pack_index import PackIndex
from horovod_opt.io.memory_limit import show
from horovod_opt.io.native import crc32c
from horovod_opt.io.pack.contents import PIECE, Content, Reader
from horovod_opt.io.pack.listing import Listing
from horovod_opt.io.pack.plan import BLOCK, END, MOST_PARTS, NAMED, Options, Plan, plan
from horovod_opt.io.progress import Meter, ProgressFunction

MARK = ".packing"
LOCK = ".pack.lock"
_OWN = (MARK, LOCK, ".part-", ".pack.hoi")  # how hidden names begin that are written here
RECORD = 10240  # bytes: a tar's size is a multiple


class Done(NamedTuple):
    """`written`: tars that this call wrote; the others were there."""

    index: PackIndex
    written: int


def pack(listing: Listing, out: Path, options: Options, threads: int = 16,
         progress: ProgressFunction | None = None) -> Done:
    """Packs the files into the folder `out`; what an interrupted call has left is gone on with.

    Raises InputError for options that cannot be, DataError for a folder that has something else,
    files that cannot be read or change meanwhile, and where there is no room.
    """
    if options.level is not None:
        compression.require("--zstd")
    dealt = plan(listing, options)
    if len(dealt.ends) > MOST_PARTS:
        raise InputError(f"{len(dealt.ends)} tars of {show(options.part_bytes)} would be more than "
                         f"{MOST_PARTS}; remedy: a larger --part-size")
    with _room_said(out):
        out.mkdir(parents=True, exist_ok=True)
        with build_lock.hold(str(out / LOCK)):
            return _Packer(listing, out, options, threads, dealt).run(progress)


@contextmanager
def _room_said(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = ("make room; the same command then goes on" if error.errno in (
            errno.ENOSPC, errno.EDQUOT) else "a folder that can be written to")
        raise DataError(f"{out}: cannot be written to: {error.strerror}; remedy: {remedy}"
                        ) from error


class _Packer:
    def __init__(self, listing: Listing, out: Path, options: Options, threads: int, dealt: Plan):
        self._listing, self._out, self._plan = listing, out, dealt
        self._reader = Reader(listing, options.level, threads)
        self._names = [NAMED.format(k) for k in range(len(dealt.ends))]
        self._is_plain = options.level is None

    def run(self, progress: ProgressFunction | None) -> Done:
        complete = self._complete()
        if complete is None:
            self._begin()
        notes = [self._note_of(k, complete) for k in range(len(self._names))]
        todo = [k for k, note in enumerate(notes) if note is None]
        self._require_room(todo)
        sizes = self._listing.sizes
        meter = Meter(progress, sum(sizes))
        meter.advance(sum(sizes) - sum(sizes[i] for k in todo for i in self._plan.rows(k).tolist()))
        contents = self._reader.contents(i for k in todo for i in self._plan.rows(k).tolist())
        try:
            for k in todo:
                notes[k] = self._write(k, contents, meter.advance)
        finally:
            contents.close()
        meter.finish()
        if complete is None:
            _publish(self._out / pack_index.NAME, b"".join(self._index(notes).pieces()))
        for name in os.listdir(self._out):
            if name.startswith(_OWN) and not name.startswith(LOCK):
                (self._out / name).unlink(missing_ok=True)
        return Done(complete or pack_index.read(self._out / pack_index.NAME), len(todo))

    def _complete(self) -> PackIndex | None:
        """The index, if there is one. Raises DataError for another pack's."""
        try:
            index = pack_index.read(self._out / pack_index.NAME)
        except Missing:
            return None
        if index.plan != self._plan.identity:
            raise DataError(f"{self._out}: a pack of other files, or made with other options; "
                            "remedy: another folder, or remove this one; --verify says which files "
                            "differ")
        return index

    def _begin(self) -> None:
        """Raises DataError for a folder in which something else is."""
        was_begun = (self._out / MARK).exists()
        for name in sorted(os.listdir(self._out)):
            if not name.startswith(_OWN) and not (was_begun and pack_folder.is_tar(name)):
                raise DataError(f"{self._out}: there is {name} in it; remedy: a new or empty "
                                "folder")
        if not was_begun:
            _publish(self._out / MARK, b"")
        for name in pack_folder.tars(str(self._out)):
            if name not in set(self._names):
                self._remove(name)

    def _note_of(self, k: int, complete: PackIndex | None) -> dict[str, Any] | None:
        """What is known of a tar that is there, whole; else what is left of it goes."""
        name = self._names[k]
        try:
            if complete is not None:
                note = {"identity": self._plan.identities[k], "size": complete.file_sizes[k]}
            else:
                note = json.loads(_note_path(self._out, name).read_text())
            if note["identity"] == self._plan.identities[k] and (
                    self._out / name).stat().st_size == note["size"]:
                return note
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self._remove(name)
        return None

    def _remove(self, name: str) -> None:
        for path in (self._out / name, _note_path(self._out, name), _draft(self._out / name)):
            path.unlink(missing_ok=True)

    def _require_room(self, todo: list[int]) -> None:
        sizes = self._listing.sizes
        need = sum(sizes[i] for k in todo for i in self._plan.rows(k).tolist())
        free = shutil.disk_usage(self._out).free
        if self._is_plain and need > free:
            raise DataError(f"{self._out}: {show(need)} are to be written, but {show(free)} are "
                            "free; remedy: make room, or another folder")

    def _write(self, k: int, contents: Iterator[Content], advance: Callable[[int], None]
               ) -> dict[str, Any]:
        name = self._names[k]
        note: dict[str, Any] = {"identity": self._plan.identities[k], "offset": [], "stored": [],
                                "crcs": []}
        draft = _draft(self._out / name)
        with open(draft, "wb", buffering=1 << 20) as file:
            tar = _Tar(file)
            for folder in self._listing.folders if k == 0 else ():
                tar.add_header(folder + "/", 0, 0, 0o755)
            for _ in self._plan.rows(k):
                content = next(contents)
                for key, value in zip(("offset", "stored", "crcs"), self._add(tar, content)):
                    note[key].append(value)
                advance(self._listing.sizes[content.file])
            tar.end()
            file.flush()
            os.fsync(file.fileno())
        note.update(size=tar.size, crc=tar.crc)
        _publish(_note_path(self._out, name), json.dumps(note).encode())
        os.rename(draft, self._out / name)
        return note

    def _add(self, tar: _Tar, content: Content) -> tuple[int, int, int]:
        """Where it is, its size there, and its checksum."""
        i, listing = content.file, self._listing
        path, raw_size, mtime = listing.paths[i], listing.sizes[i], listing.mtimes_ns[i] // 10**9
        if content.data is not None:
            size = len(content.data)
            name = path if size == raw_size else path + compression.SUFFIX
            tar.add_header(name, size, mtime, listing.modes[i])
            return tar.add([content.data]), size, content.crc
        with self._large(i) as (name, size, pieces):
            tar.add_header(name, size, mtime, listing.modes[i])
            crc = [0]
            return tar.add(_summed(pieces, crc)), size, crc[0]

    @contextmanager
    def _large(self, i: int) -> Iterator[tuple[str, int, Iterator[bytes]]]:
        """Name, size and pieces of a large file as it is to be stored."""
        path, raw_size = self._listing.paths[i], self._listing.sizes[i]
        if self._reader.may_compress(i):
            with tempfile.TemporaryFile(dir=self._out) as file:
                size = self._reader.compress_into(i, file)
                if compression.is_worth(size, raw_size):
                    file.seek(0)
                    yield path + compression.SUFFIX, size, iter(lambda: file.read(PIECE), b"")
                    return
        yield path, raw_size, self._reader.pieces(i)

    def _index(self, notes: list[dict[str, Any]]) -> PackIndex:
        order, listing = self._plan.order.tolist(), self._listing
        counts = np.diff([0, *self._plan.ends])

        def column(name: str, dtype: type) -> np.ndarray:
            return np.concatenate([np.array(note[name], dtype) for note in notes])

        return PackIndex(
            self._names, np.array([note["size"] for note in notes], np.int64),
            np.array([note["crc"] for note in notes], np.uint32),
            Texts.of(listing.paths[i].encode() for i in order),
            np.repeat(np.arange(len(counts), dtype=np.int32), counts), column("offset", np.int64),
            column("stored", np.int64), np.array(listing.sizes, np.int64)[order],
            column("crcs", np.uint32), self._plan.labels.astype(np.int32),
            np.array(listing.modes, np.int32)[order], np.array(listing.mtimes_ns, np.int64)[order],
            self._plan.samples, self._plan.classes, tuple(listing.folders), self._plan.identity)


class _Tar:
    """A tar that is being written, in GNU's format: `size` and `crc` (crc32c) of what is written.
    """

    def __init__(self, file: Any):
        self._file = file
        self.size = self.crc = 0

    def add_header(self, name: str, size: int, mtime: int, mode: int) -> None:
        info = tarfile.TarInfo(name.rstrip("/"))
        info.size, info.mtime, info.mode = size, mtime, mode
        if name.endswith("/"):
            info.type = tarfile.DIRTYPE
        self._put(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict"))

    def add(self, pieces: Any) -> int:
        """Returns where they begin."""
        begin = self.size
        for piece in pieces:
            self._put(piece)
        self._put(bytes(-self.size % BLOCK))
        return begin

    def end(self) -> None:
        self._put(bytes(END + -(self.size + END) % RECORD))

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self.crc = crc32c(data, self.crc)
        self.size += len(data)


def _summed(pieces: Iterator[bytes], crc: list[int]) -> Iterator[bytes]:
    for piece in pieces:
        crc[0] = crc32c(piece, crc[0])
        yield piece


def _note_path(out: Path, name: str) -> Path:
    return out / f".{name}.json"


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name.lstrip('.')}.tmp")


def _publish(path: Path, data: bytes) -> None:
    """Readers see all of it, or nothing; also after a crash."""
    draft = _draft(path)
    with open(draft, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
