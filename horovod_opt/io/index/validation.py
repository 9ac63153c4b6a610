"""Whether the columns of an index describe something that can be read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from horovod_opt.io.formats import FOLDER
from horovod_opt.io.formats.columns import Texts
from horovod_opt.io.formats.unpacked_file import most_bytes
from horovod_opt.io.index.data_index import Index, identity
from horovod_opt.io.index.files import Files

AT_ONCE = 1 << 20  # samples that are looked at together: it takes memory in each rank


def check_texts(column: Texts, description: str) -> None:
    """Raises ValueError if the ends of texts do not divide their bytes."""
    ends = column.ends
    lengths = np.diff(ends, prepend=0)
    if (lengths < 0).any() or (ends[-1] if len(ends) else 0) != len(column.blob):
        raise ValueError(f"{description} that end outside of their bytes")


def check_files(files: Files) -> None:
    """Raises ValueError for names that are not sorted, lead out of the root, or are not UTF-8."""
    check_texts(files.names, "names of files")
    if (np.diff(files.names.ends, prepend=0) == 0).any():
        raise ValueError("a file without a name")
    names = files.names.strings()
    for name in names:
        if name[0] == "/" or "\0" in name or (".." in name and ".." in name.split("/")):
            raise ValueError(f"a file named {name!r}")
    if any(name >= following for name, following in zip(names, names[1:])):
        raise ValueError("names of files that are not sorted")
    if (files.sizes < 0).any():
        raise ValueError("a file of negative size")


def check_index(index: Index, no_sample: int = 0) -> None:
    """Raises ValueError for samples outside of their files, records that overlap, a class that is
    none, keys that are none, or a digest of other files. `no_sample`: a label that may be, too."""
    if index.unpacked is not None and (
            (index.unpacked < -1) | (index.unpacked > most_bytes(index.files.sizes))).any():
        raise ValueError("a file that would be too large once it is unpacked")
    if index.samples:
        _check_bounds(index)
    if index.format == FOLDER and index.samples != len(index.files):
        raise ValueError(f"{index.samples} samples in a folder of {len(index.files)} files")
    if index.keys is not None:
        check_texts(index.keys, "keys")
    if index.label is not None and index.samples:
        if index.label.min() < min(no_sample, 0) or index.label.max() >= len(index.classes):
            raise ValueError(f"a label that is none of {len(index.classes)} classes")
    if identity(index.format, index.files, index.file[:, 0]) != index.digest:
        raise ValueError("a digest that is not that of the files")


def _check_bounds(index: Index) -> None:
    file = index.file[:, 0]  # all parts of a sample are in one
    if file[0] < 0 or file[-1] >= len(index.files) or (file[1:] < file[:-1]).any():
        raise ValueError("files of samples that are out of order or do not exist")
    for rows in _slices(index.samples):
        size, offset = index.size[rows], index.offset[rows]
        if (size < 0).any() or (offset < 0).any():
            raise ValueError("a negative offset or size")
        limit = index.lengths[file[rows]][:, None]
        if (size > limit).any() or (offset > limit - size).any():
            raise ValueError("a record outside of its file")
    if not _is_in_order(index):
        _check_overlaps(index)


def _is_in_order(index: Index) -> bool:
    """Whether each record begins where the one before has ended, or later: most indexes."""
    file_before, end_before = -1, 0
    for rows in _slices(index.samples):
        file, offset, end = _filled_records(index, rows)
        if not len(file):
            continue
        same = np.diff(file, prepend=file_before) == 0
        if (same & (offset < np.concatenate([[end_before], end[:-1]]))).any():
            return False
        file_before, end_before = file[-1], end[-1]
    return True


def _check_overlaps(index: Index) -> None:
    """Raises ValueError if two records of a file have a byte in common."""
    file, offset, end = _filled_records(index, slice(None))
    order = np.lexsort((offset, file))
    file, offset, end = file[order], offset[order], end[order]
    if ((np.diff(file) == 0) & (offset[1:] < end[:-1])).any():
        raise ValueError("records that overlap")


def _filled_records(index: Index, rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """File, first byte and end of the records that take any."""
    columns = (index.file, index.offset, index.size)
    file, offset, size = (column[rows].reshape(-1) for column in columns)
    is_filled = size > 0
    return file[is_filled], offset[is_filled], offset[is_filled] + size[is_filled]


def _slices(samples: int) -> Iterator[slice]:
    return (slice(first, first + AT_ONCE) for first in range(0, samples, AT_ONCE))
