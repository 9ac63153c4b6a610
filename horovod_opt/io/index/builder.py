"""Builds an index: looks at every file once, in parallel, and keeps what it found."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from horovod_opt.io import formats
from horovod_opt.io.errors import (
    Damaged,
    DamagedRecords,
    DataError,
    Missing,
    Stale,
    TruncatedFile,
)
from horovod_opt.io.formats import lmdb_file, tar, tfrecord
from horovod_opt.io.formats.columns import Scan, Texts
from horovod_opt.io.formats.unpacked_file import UnpackedFile
from horovod_opt.io.index import index_file, places
from horovod_opt.io.index.checksums import checksums as read_checksums
from horovod_opt.io.index.data_index import Index, identity
from horovod_opt.io.index.files import Files, find_changes, stat_files
from horovod_opt.io.index.lookup import load, read
from horovod_opt.io.index.tasks import run_all
from horovod_opt.io.progress import Meter, ProgressFunction

THREADS = 16  # that scan a file each
SHOWN = 3  # damaged records in a warning
PLAIN = -1  # in Index.unpacked
NO_SAMPLE = {formats.TFRECORD: "records in the files, which are empty",
             formats.TAR: "members with an extension, such as 0001.jpg: others, and hidden ones, "
                          "belong to no sample",
             formats.LMDB: "values in the unnamed database, which is empty",
             formats.FOLDER: "files in the folder"}


def build(pattern: formats.Pattern, checksums: bool = True,
          progress: ProgressFunction | None = None, place: str | os.PathLike | None = None,
          keep_truncated: bool = False) -> Index:
    """Indexes what `pattern` names, keeps the index, and returns it as `load` would.

    With `checksums` all data is read once. Without, only what is needed to find the samples, and
    `Index.crc` is None unless the files hold checksums (TFRecord). `progress` is called with bytes
    done and bytes in all, by one thread at a time. A job that finds another one building the same
    index waits and uses that one's. Warns with DamagedRecords about records that do not match
    their file's own checksum: they are found again when they are read. Of truncated files
    `keep_truncated` takes the samples before that. Raises DataError for data that cannot be
    indexed, files that change meanwhile, or where no place can be written.
    """
    data_files = formats.find(pattern)
    if data_files.format == formats.PACK:
        raise formats.pack_folder.refuse_build(data_files.root)
    if place is None:
        places.move_old(pattern)
    candidates = places.candidates(pattern, place)
    before = [_version_of(candidate) for candidate in candidates]
    with places.lock(candidates) as writable:
        if [_version_of(candidate) for candidate in candidates] != before:
            with suppress(Missing, Stale, Damaged):
                index = load(pattern, place, checksums=checksums)
                if index.crc is not None or not checksums:
                    return refuse_truncated(index, keep_truncated)
        index = _scan(data_files, checksums, progress, keep_truncated)
        path = places.write(writable, index_file.pieces(index))
    return read(path, index.root, check=False)


def refuse_truncated(index: Index, keep_truncated: bool) -> Index:
    """The same. Raises TruncatedFile if it is of a file that ends too early, unless these are
    kept."""
    if index.truncated and not keep_truncated:
        raise TruncatedFile(index.truncations[0])
    return index


def _scan(data_files: formats.DataFiles, contents: bool, progress: ProgressFunction | None,
          keep_truncated: bool = False) -> Index:
    files = stat_files(data_files.root, data_files.files)
    meter = Meter(progress, int(files.sizes.sum()))
    if data_files.format == formats.FOLDER:
        index = _of_folder(data_files, files)
    else:
        index = _of_records(data_files, files, contents, meter, keep_truncated)
    if not index.samples:
        raise DataError(f"{data_files.root}: {len(files)} files hold no sample; remedy: "
                        f"{NO_SAMPLE[data_files.format]}, or another pattern")
    if contents and data_files.format != formats.TFRECORD:
        index = replace(index, crc=_checksums(index, meter))
    changes = find_changes(index.root, files, index.transactions)
    if changes:
        raise DataError(f"{os.path.join(index.root, changes[0].name)}: {changes[0].reason}: it "
                        "changed while it was indexed; remedy: end its writers first, then index "
                        "again")
    meter.finish()
    return index


def _of_folder(data_files: formats.DataFiles, files: Files) -> Index:
    n = len(files)
    file = np.arange(n, dtype=np.int32)
    return Index(format=data_files.format, root=data_files.root, files=files, parts=("",),
                 classes=data_files.classes, file=file[:, None], offset=np.zeros((n, 1), np.int64),
                 size=files.sizes[:, None], crc=None,
                 label=None if data_files.labels is None else np.array(data_files.labels, np.int32),
                 keys=None, transactions=(), digest=identity(data_files.format, files, file))


def _of_records(data_files: formats.DataFiles, files: Files, contents: bool, meter: Meter,
                keep_truncated: bool) -> Index:
    paths = [os.path.join(data_files.root, name) for name in data_files.files]

    def scan(i: int) -> tuple[Scan, int, int]:
        size, transaction, unpacked = int(files.sizes[i]), 0, PLAIN
        if data_files.format == formats.LMDB:
            file_scan, transaction = lmdb_file.scan(paths[i])
        elif formats.is_packed(paths[i]):
            file_scan, unpacked = _scan_packed(data_files.format, paths[i], contents,
                                               keep_truncated)
            meter.advance(size * contents)
        elif data_files.format == formats.TFRECORD:
            return (tfrecord.scan(paths[i], size, contents, meter.advance, keep_truncated),
                    transaction, unpacked)
        else:
            file_scan = tar.scan(paths[i], size, keep_truncated)
        if not contents:
            meter.advance(size)
        return file_scan, transaction, unpacked

    with ThreadPoolExecutor(THREADS) as pool:
        results = run_all(pool, scan, range(len(paths)))
    scans = _with_all_parts([file_scan for file_scan, _, _ in results], paths)
    unpacked = np.array([row[2] for row in results], np.int64)
    _warn([text for file_scan in scans for text in file_scan.damages])
    counts = [len(file_scan.offset) for file_scan in scans]
    file = np.repeat(np.arange(len(paths), dtype=np.int32), counts)
    parts = scans[0].parts or ("",)
    shape = (len(file), len(parts))
    return Index(
        format=data_files.format, root=data_files.root, files=files, parts=parts, classes=(),
        file=np.broadcast_to(file[:, None], shape),
        offset=np.concatenate([file_scan.offset.reshape(-1, len(parts)) for file_scan in scans]),
        size=np.concatenate([file_scan.size.reshape(-1, len(parts)) for file_scan in scans]),
        crc=_known_checksums(scans) if contents or data_files.format == formats.TFRECORD else None,
        label=None,
        keys=None if data_files.format == formats.TFRECORD else Texts.concatenate(
            [file_scan.keys for file_scan in scans]),
        transactions=tuple(row[1] for row in results)
        if data_files.format == formats.LMDB else (),
        digest=identity(data_files.format, files, file),
        truncated=tuple((i, file_scan.truncation[len(paths[i]):])
                        for i, file_scan in enumerate(scans) if file_scan.truncation),
        unpacked=unpacked if (unpacked != PLAIN).any() else None)


def _scan_packed(kind: str, path: str, contents: bool, keep_truncated: bool) -> tuple[Scan, int]:
    """The samples of a compressed file, which is unpacked once, and the bytes of its contents."""
    with UnpackedFile(path) as packed:
        if kind == formats.TFRECORD:
            file_scan = tfrecord.scan(path, 0, contents, lambda count: None, keep_truncated, packed)
        else:
            file_scan = tar.scan(path, 0, keep_truncated, packed, contents)
        size, truncation = packed.drain()
    if truncation and not keep_truncated:
        raise TruncatedFile(truncation)
    if truncation and not file_scan.truncation:
        file_scan = replace(file_scan, truncation=truncation)
    return file_scan, size


def _with_all_parts(scans: Sequence[Scan], paths: Sequence[str]) -> list[Scan]:
    """Each with the parts of all, in the order in which they come. Raises DataError for more than
    samples can have."""
    parts = tuple(dict.fromkeys(part for scan in scans if len(scan.offset) for part in scan.parts))
    tar.check_parts(os.path.commonpath(paths), parts)
    return [scan.with_parts(parts) if len(scan.offset) else
            replace(scan, parts=parts, offset=np.zeros((0, len(parts)), np.int64),
                    size=np.zeros((0, len(parts)), np.int64)) for scan in scans]


def _known_checksums(scans: Sequence[Scan]) -> np.ndarray | None:
    """0 where a scan has none; None where none has."""
    if all(file_scan.crc is None for file_scan in scans):
        return None
    return np.concatenate([np.zeros(file_scan.size.shape, np.uint32) if file_scan.crc is None
                           else file_scan.crc for file_scan in scans])


def _checksums(index: Index, meter: Meter) -> np.ndarray:
    """Those of compressed files are known."""
    paths = [os.path.join(index.root, name) for name in index.files.names.strings()]
    known = np.zeros(len(paths), bool) if index.unpacked is None else index.unpacked != PLAIN
    plain = np.flatnonzero(~known[index.file.reshape(-1)])
    crc = np.zeros(index.size.size, np.uint32) if index.crc is None else index.crc.reshape(-1)
    crc[plain], unreadable = read_checksums(
        paths, *(column.reshape(-1)[plain] for column in (index.file, index.offset, index.size)),
        meter.advance)
    if unreadable:
        raise DataError(unreadable[0].reason)
    return crc.reshape(index.size.shape)


def _warn(records: Sequence[str]) -> None:
    if records:
        more = f" (and {len(records) - SHOWN} more)" if len(records) > SHOWN else ""
        warnings.warn(f"{len(records)} damaged records: {'; '.join(records[:SHOWN])}{more}; "
                      "remedy: copy or make these files again", DamagedRecords, stacklevel=2)


def _version_of(place: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(place)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
