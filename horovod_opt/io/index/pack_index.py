"""The index of a pack: of each file path, mode, time, size, class, its place in which tar, and the
checksum of what is there; of each tar, size and checksum.

A row for each file, in the order of the tars: samples first. `hio.open` sees the samples as it sees
those of any index, so the arrays are mapped and shared by the ranks of a node.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from horovod_opt.io.errors import Damaged, DataError, Missing
from horovod_opt.io.formats import PACK, compression
from horovod_opt.io.formats.columns import Texts
from horovod_opt.io.formats.compression import MOST_RATIO
from horovod_opt.io.formats.pack_folder import NAME
from horovod_opt.io.index import column_codec, column_file, validation
from horovod_opt.io.index.column_file import ColumnBlocks, require_count, require_names
from horovod_opt.io.index.data_index import Index, identity
from horovod_opt.io.index.files import Files

MAGIC = b"\x93HOP\r\n\x1a\n"
VERSION = 1
TYPES = {name: np.dtype(kind) for name, kind in {
    "names": "u1", "name_ends": "<i8", "file_sizes": "<i8", "file_crcs": "<u4", "paths": "u1",
    "path_ends": "<i8", "file": "<i4", "offset": "<i8", "size": "<i8", "raw_size": "<i8",
    "crc": "<u4", "label": "<i4", "mode": "<i4", "mtime": "<i8"}.items()}
_OF_ROWS = ("file", "offset", "size", "raw_size", "crc", "label", "mode", "mtime")


@dataclass(frozen=True, eq=False)
class PackIndex:
    """`names`, `file_sizes` (int64) and `file_crcs` (uint32): of the tars. Of n files, in rows:
    `paths`, `file` (int32, number of its tar), `offset` and `size` (int64, bytes, in the tar),
    `raw_size` (int64, of the file; another than `size` where it is compressed), `crc` (uint32,
    crc32c of what is in the tar), `label` (int32: its class, -1: no sample), `mode` (int32) and
    `mtime` (int64, ns). The first `samples` are samples. `folders`: empty ones. `plan`: identity of
    all that the pack was made of."""

    names: list[str]
    file_sizes: np.ndarray
    file_crcs: np.ndarray
    paths: Texts
    file: np.ndarray
    offset: np.ndarray
    size: np.ndarray
    raw_size: np.ndarray
    crc: np.ndarray
    label: np.ndarray
    mode: np.ndarray
    mtime: np.ndarray
    samples: int
    classes: tuple[str, ...]
    folders: tuple[str, ...]
    plan: str
    fingerprint: str = ""

    def pieces(self) -> list[bytes]:
        """The file's bytes, in order."""
        names = Texts.of(name.encode() for name in self.names)
        columns = {"names": names.blob, "name_ends": names.ends, "file_sizes": self.file_sizes,
                   "file_crcs": self.file_crcs, "paths": self.paths.blob,
                   "path_ends": self.paths.ends,
                   **{name: getattr(self, name) for name in _OF_ROWS}}
        header = {"format": PACK, "samples": self.samples, "rows": len(self.file),
                  "files": len(self.names), "classes": self.classes, "folders": self.folders,
                  "plan": self.plan}
        return column_file.pieces(MAGIC, VERSION, header, columns, TYPES)

    @property
    def is_compressed(self) -> bool:
        """Whether any file is."""
        return bool((self.raw_size != self.size).any())

    def of_samples(self, root: str, mtimes_ns: np.ndarray, rows: int | None = None) -> Index:
        """What hio.open has of the pack in the folder `root`, whose tars have these times now;
        `rows`: of the first so many files."""
        rows = slice(self.samples if rows is None else rows)
        n = len(self.file[rows])
        files = Files(Texts.of(name.encode() for name in self.names), self.file_sizes, mtimes_ns)
        keys = Texts(self.paths.blob[:self.paths.ends[n - 1] if n else 0], self.paths.ends[rows])
        sizes, raw_sizes = self.size[rows, None], self.raw_size[rows, None]
        return Index(
            format=PACK, root=root, files=files, parts=("",), classes=self.classes,
            file=self.file[rows, None], offset=self.offset[rows, None], size=sizes,
            crc=self.crc[rows, None], label=self.label[rows] if self.classes else None, keys=keys,
            transactions=(), digest=identity(PACK, files, self.file[rows]),
            place=os.path.join(root, NAME), fingerprint=self.fingerprint,
            raw_size=None if np.array_equal(sizes, raw_sizes) else raw_sizes)


def read(path: str | os.PathLike) -> PackIndex:
    """Raises Missing if there is none, Damaged for one that is torn, forged or of a newer version:
    in memory it takes at most some hundred times its size, and what it describes at most MOST_RATIO
    times the tars' size, whatever it says."""
    path = os.fspath(path)
    try:
        file_bytes = column_file.map_file(path, _damage, None)
    except Missing:
        raise Missing(f"{path}: no index of a pack; remedy: horovod-opt pack") from None
    try:
        header, body = column_file.take_header(file_bytes, MAGIC, VERSION)
        return _checked(header, ColumnBlocks(header["columns"], body, TYPES), len(file_bytes))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damage(path, error) from error


def open_samples(root: str, check: bool) -> Index:
    """The samples of the pack in the folder `root`, as an index. With `check`, raises DataError
    where tars are missing or have another size."""
    pack = read(Path(root, NAME))
    mtimes, wrong = [], []
    for name, size in zip(pack.names, pack.file_sizes.tolist()):
        try:
            status = os.stat(os.path.join(root, name))
        except OSError as error:
            wrong.append(f"{name}: {error.strerror}")
            mtimes.append(0)
            continue
        mtimes.append(status.st_mtime_ns)
        if status.st_size != size:
            wrong.append(f"{name}: size {size} when packed, now {status.st_size}")
    if wrong and check:
        raise DataError(f"{root}: of the {len(pack.names)} tars of this pack {len(wrong)} are "
                        f"missing or cut, as {wrong[0]}; remedy: bring them here, as horovod-opt "
                        "io stage --replicas all does, or open where all are")
    if not pack.samples:
        raise DataError(f"{root}: a pack without samples: its files are hidden, or beside its "
                        "folders; remedy: pack the folder that holds the samples")
    index = pack.of_samples(root, np.array(mtimes, np.int64))
    if index.raw_size is not None:
        compression.require(f"{root}: a compressed pack")
    return index


def _checked(header: dict, columns: ColumnBlocks, file_bytes: int) -> PackIndex:
    samples, rows, files = (require_count(header[name]) for name in ("samples", "rows", "files"))
    if samples > rows or max(rows, files) > file_bytes * column_codec.ROWS_A_BYTE:
        raise ValueError(f"{samples} samples of {rows} files in {files} tars, described by "
                         f"{file_bytes} bytes")
    if not isinstance(header["plan"], str):
        raise ValueError("a plan that is none")
    names = Texts(columns.take("names"), columns.take("name_ends", files))
    pack = PackIndex(
        [], columns.take("file_sizes", files), columns.take("file_crcs", files),
        Texts(columns.take("paths"), columns.take("path_ends", rows)),
        *(columns.take(name, rows) for name in _OF_ROWS), samples=samples,
        classes=require_names(header["classes"]), folders=require_names(header["folders"]),
        plan=header["plan"], fingerprint=column_file.fingerprint_of(header))
    validation.check_files(Files(names, pack.file_sizes, np.zeros(files, np.int64)))
    pack.names.extend(names.strings())
    if any("/" in name for name in pack.names):
        raise ValueError("a tar in another folder")
    whole = pack.of_samples("", np.zeros(files, np.int64), rows)
    validation.check_index(whole, no_sample=-1)
    if pack.samples and (pack.label[:samples] < 0).any():
        raise ValueError("a sample that is none")
    if (pack.raw_size < pack.size).any() or (
            (pack.raw_size > pack.size) & (pack.raw_size / MOST_RATIO > pack.size)).any():
        raise ValueError("a file that would be too large once it is expanded")
    return pack


def _damage(path: str, why: object) -> Damaged:
    if isinstance(why, KeyError):
        why = f"its header lacks {why}"
    return Damaged(f"{path}: this index of a pack cannot be used: {why}; remedy: copy it, or pack "
                   "again")
