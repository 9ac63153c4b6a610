"""Whether the columns of an index describe something that can be read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from horovod_opt.io.formats import FOLDER
from horovod_opt.io.formats.texts import Texts
from horovod_opt.io.index.data_index import Index, identity
from horovod_opt.io.index.files import Files

AT_ONCE = 1 << 20  # samples that are looked at together: it takes memory in each rank


def texts(column: Texts, what: str) -> None:
    """Raises ValueError if the ends of texts do not divide their bytes."""
    ends = column.ends
    lengths = np.diff(ends, prepend=0)
    if (lengths < 0).any() or (ends[-1] if len(ends) else 0) != len(column.blob):
        raise ValueError(f"{what} that end outside of their bytes")


def files(listed: Files) -> None:
    """Raises ValueError for names that are not sorted, lead out of the root, or are not UTF-8."""
    texts(listed.names, "names of files")
    if (np.diff(listed.names.ends, prepend=0) == 0).any():
        raise ValueError("a file without a name")
    names = listed.names.strings()
    for name in names:
        if name[0] == "/" or "\0" in name or (".." in name and ".." in name.split("/")):
            raise ValueError(f"a file named {name!r}")
    if any(one >= other for one, other in zip(names, names[1:])):
        raise ValueError("names of files that are not sorted")
    if (listed.sizes < 0).any():
        raise ValueError("a file of negative size")


def index(one: Index) -> None:
    """Raises ValueError for samples outside of their files, records that overlap, a class that is
    none, keys that are none, or a digest of other files."""
    if one.samples:
        _inside(one)
    if one.format == FOLDER and one.samples != len(one.files):
        raise ValueError(f"{one.samples} samples in a folder of {len(one.files)} files")
    if one.keys is not None:
        texts(one.keys, "keys")
    if one.label is not None and one.samples:
        if one.label.min() < 0 or one.label.max() >= len(one.classes):
            raise ValueError(f"a label that is none of {len(one.classes)} classes")
    if identity(one.format, one.files, one.file[:, 0]) != one.digest:
        raise ValueError("a digest that is not that of the files")


def _inside(one: Index) -> None:
    file = one.file[:, 0]  # all parts of a sample are in one
    if file[0] < 0 or file[-1] >= len(one.files) or (file[1:] < file[:-1]).any():
        raise ValueError("files of samples that are out of order or do not exist")
    for rows in _slices(one.samples):
        size, offset = one.size[rows], one.offset[rows]
        if (size < 0).any() or (offset < 0).any():
            raise ValueError("a negative offset or size")
        limit = one.files.sizes[file[rows]][:, None]
        if (size > limit).any() or (offset > limit - size).any():
            raise ValueError("a record outside of its file")
    if not _in_order(one):
        _apart(one)


def _in_order(one: Index) -> bool:
    """Whether each record begins where the one before has ended, or later: most indexes."""
    file_before, end_before = -1, 0
    for rows in _slices(one.samples):
        file, offset, end = _taken(one, rows)
        if not len(file):
            continue
        same = np.diff(file, prepend=file_before) == 0
        if (same & (offset < np.concatenate([[end_before], end[:-1]]))).any():
            return False
        file_before, end_before = file[-1], end[-1]
    return True


def _apart(one: Index) -> None:
    """Raises ValueError if two records of a file have a byte in common."""
    file, offset, end = _taken(one, slice(None))
    order = np.lexsort((offset, file))
    file, offset, end = file[order], offset[order], end[order]
    if ((np.diff(file) == 0) & (offset[1:] < end[:-1])).any():
        raise ValueError("records that overlap")


def _taken(one: Index, rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """File, first byte and end of the records that take any."""
    file, offset, size = (column[rows].reshape(-1) for column in (one.file, one.offset, one.size))
    taken = size > 0
    return file[taken], offset[taken], offset[taken] + size[taken]


def _slices(samples: int) -> Iterator[slice]:
    return (slice(first, first + AT_ONCE) for first in range(0, samples, AT_ONCE))
