"""Builds an index: looks at every file once, in parallel, and keeps what it found."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from horovod_opt.io import formats
from horovod_opt.io.errors import Damaged, DamagedRecords, DataError, Missing, Stale
from horovod_opt.io.formats import lmdb_file, tar, tfrecord
from horovod_opt.io.formats.scan import Scan
from horovod_opt.io.formats.texts import Texts
from horovod_opt.io.index import index_file, places
from horovod_opt.io.index.checksums import checksums as read_checksums
from horovod_opt.io.index.data_index import Index, identity
from horovod_opt.io.index.files import Files, changes, now
from horovod_opt.io.index.loading import load, read
from horovod_opt.io.index.meter import Meter, Progress

THREADS = 16  # that scan a file each
SHOWN = 3  # damaged records in a warning

Result = TypeVar("Result")


def build(pattern: formats.Pattern, checksums: bool = True, progress: Progress | None = None,
          place: str | os.PathLike | None = None) -> Index:
    """Indexes what `pattern` names, keeps the index, and returns it as `load` would.

    With `checksums` all data is read once. Without, only what is needed to find the samples, and
    `Index.crc` is None unless the files hold checksums (TFRecord). `progress` is called with bytes
    done and bytes in all, by one thread at a time. A job that finds another one building the same
    index waits and uses that one's. Warns with DamagedRecords about records that do not match
    their file's own checksum: they are found again when they are read. Raises DataError for data
    that cannot be indexed, files that change meanwhile, or where no place can be written.
    """
    found = formats.find(pattern)
    candidates = places.candidates(pattern, place)
    before = [_written(one) for one in candidates]
    with places.locked(candidates) as writable:
        if [_written(one) for one in candidates] != before:
            with suppress(Missing, Stale, Damaged):
                index = load(pattern, place)
                if index.crc is not None or not checksums:
                    return index
        index = _scanned(found, checksums, progress)
        kept = places.write(writable, index_file.pieces(index))
    return read(kept, index.root, check=False)


def _scanned(found: formats.Found, contents: bool, progress: Progress | None) -> Index:
    listed = now(found.root, found.files)
    meter = Meter(progress, int(listed.sizes.sum()))
    if found.format == formats.FOLDER:
        index = _of_folder(found, listed)
    else:
        index = _of_records(found, listed, contents, meter)
    if not index.samples:
        raise DataError(f"{found.root}: {len(found.files)} files hold no sample; remedy: correct "
                        "the pattern")
    if contents and index.crc is None:
        index = replace(index, crc=_checksums(index, meter))
    changed = changes(index.root, listed, index.transactions)
    if changed:
        raise DataError(f"{os.path.join(index.root, changed[0].name)}: {changed[0].reason}: it "
                        "changed while it was indexed; remedy: end its writers first, then index "
                        "again")
    meter.finish()
    return index


def _of_folder(found: formats.Found, listed: Files) -> Index:
    n = len(listed)
    file = np.arange(n, dtype=np.int32)
    return Index(format=found.format, root=found.root, files=listed, parts=("",),
                 classes=found.classes, file=file[:, None], offset=np.zeros((n, 1), np.int64),
                 size=listed.sizes[:, None], crc=None,
                 label=None if found.labels is None else np.array(found.labels, np.int32),
                 keys=None, transactions=(), digest=identity(found.format, listed, file))


def _of_records(found: formats.Found, listed: Files, contents: bool, meter: Meter) -> Index:
    paths = [os.path.join(found.root, name) for name in found.files]

    def scan(i: int) -> tuple[Scan, int]:
        size, transaction = int(listed.sizes[i]), 0
        if found.format == formats.TFRECORD:
            return tfrecord.scan(paths[i], size, contents, meter.advance), transaction
        if found.format == formats.LMDB:
            one, transaction = lmdb_file.scan(paths[i])
        else:
            one = tar.scan(paths[i], size)
        if not contents:
            meter.advance(size)
        return one, transaction

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(_all_or_first_error(pool, scan, len(paths)))
    scans = _with_equal_parts([one for one, _ in results], paths)
    _warn([text for one in scans for text in one.damaged])
    counts = [len(one.offset) for one in scans]
    file = np.repeat(np.arange(len(paths), dtype=np.int32), counts)
    parts = next((one.parts for one in scans if len(one.offset)), ("",))
    shape = (len(file), len(parts))
    return Index(
        format=found.format, root=found.root, files=listed, parts=parts, classes=(),
        file=np.broadcast_to(file[:, None], shape),
        offset=np.concatenate([one.offset.reshape(-1, len(parts)) for one in scans]),
        size=np.concatenate([one.size.reshape(-1, len(parts)) for one in scans]),
        crc=np.concatenate([one.crc for one in scans])
        if found.format == formats.TFRECORD else None,
        label=None,
        keys=None if found.format == formats.TFRECORD else Texts.joined(
            [one.keys for one in scans]),
        transactions=tuple(number for _, number in results)
        if found.format == formats.LMDB else (),
        digest=identity(found.format, listed, file))


def _all_or_first_error(pool: ThreadPoolExecutor, task: Callable[[int], Result],
                        count: int) -> Iterator[Result]:
    """Results in order; the first error in that order ends it without starting the rest."""
    futures = [pool.submit(task, i) for i in range(count)]
    try:
        for future in futures:
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


def _with_equal_parts(scans: Sequence[Scan], paths: Sequence[str]) -> list[Scan]:
    """Parts in the order of the first file that has samples. Raises DataError for others."""
    first = next((i for i, one in enumerate(scans) if len(one.offset)), 0)
    parts, equal = scans[first].parts, []
    for path, one in zip(paths, scans):
        if one.parts != parts and len(one.offset):
            if set(one.parts) != set(parts):
                raise tar.differing_parts((paths[first], scans[first].keys[0], parts),
                                          (path, one.keys[0], one.parts))
            order = [one.parts.index(part) for part in parts]
            one = replace(one, parts=parts, offset=one.offset[:, order], size=one.size[:, order])
        equal.append(one)
    return equal


def _checksums(index: Index, meter: Meter) -> np.ndarray:
    paths = [os.path.join(index.root, name) for name in index.files.names.strings()]
    crc, unreadable = read_checksums(paths, index.file.reshape(-1), index.offset.reshape(-1),
                                     index.size.reshape(-1), meter.advance)
    if unreadable:
        raise DataError(unreadable[0].reason)
    return crc.reshape(index.size.shape)


def _warn(damaged: Sequence[str]) -> None:
    if damaged:
        more = f" (and {len(damaged) - SHOWN} more)" if len(damaged) > SHOWN else ""
        warnings.warn(f"{len(damaged)} damaged records: {'; '.join(damaged[:SHOWN])}{more}; "
                      "remedy: copy or make these files again", DamagedRecords, stacklevel=2)


def _written(place: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(place)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
