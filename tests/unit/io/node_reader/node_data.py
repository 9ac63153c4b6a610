"""Data sets of plain arrays, and what a node reads of them: what the reader's tests share."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from horovod_opt.io import native


def files_of(folder: Path, names: list[str]) -> SimpleNamespace:
    """`Index.files` of files as they are."""
    statuses = [(folder / name).stat() for name in names]
    encoded = [name.encode() for name in names]
    return SimpleNamespace(
        names=SimpleNamespace(blob=np.frombuffer(b"".join(encoded), np.uint8),
                              ends=np.cumsum([len(name) for name in encoded])),
        sizes=np.array([status.st_size for status in statuses]),
        mtimes_ns=np.array([status.st_mtime_ns for status in statuses]))


class Data:
    """An index of records in files of a folder: what the reader needs of it, as plain arrays."""

    unpacked = None

    def __init__(self, folder: Path, names: list[str], file, offset, size, crc=None):
        self.root, self.names = str(folder), names
        self.files = files_of(folder, names)
        self.file = np.asarray(file, np.int32)
        self.offset = np.asarray(offset, np.int64)
        self.size = np.asarray(size, np.int64)
        self.crc = crc
        contents = [(folder / name).read_bytes() for name in names]
        self.records = [[contents[f][o:o + s] for f, o, s in zip(*row)]
                        for row in zip(self.file, self.offset, self.size)]

    def with_checksums(self) -> Data:
        lib = native.library()
        self.crc = np.array([[lib.hio_crc32c(0, part, len(part)) for part in row]
                             for row in self.records], np.uint32).reshape(self.offset.shape)
        return self

    def path(self, file: int) -> str:
        return os.path.join(self.root, self.names[file])

    def key(self, sample: int) -> str:
        return f"key {sample}"


def one_file(folder: Path, sizes, seed: int = 0, gap: int = 12) -> Data:
    """Records one after the other, `gap` bytes apart, as in a TFRecord or tar file."""
    sizes = np.asarray(sizes, np.int64)
    begin = np.cumsum(sizes + gap) - sizes
    rng = np.random.default_rng(seed)
    (folder / "data").write_bytes(rng.bytes(int((sizes + gap).sum())))
    shape = (len(sizes), 1)
    return Data(folder, ["data"], np.zeros(shape), begin.reshape(shape), sizes.reshape(shape))


class Loads(SimpleNamespace):
    """Which chunks a node reads for which steps: int64[n] each; all of them."""

    @classmethod
    def of(cls, rows) -> Loads:
        """From (chunk, first step, last step)."""
        table = np.array(list(rows), np.int64).reshape(-1, 3)
        return cls(chunk=table[:, 0].copy(), first=table[:, 1].copy(), last=table[:, 2].copy(),
                   mask=None)


def loads_of(steps: list[np.ndarray], chunk_samples: int, start: int = 0) -> Loads:
    """For the samples of each step, by all ranks."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, samples in enumerate(steps, start):
        for chunk in np.unique(np.asarray(samples) // chunk_samples).tolist():
            first.setdefault(chunk, step)
            last[chunk] = step
    return Loads.of(sorted(((chunk, first[chunk], last[chunk]) for chunk in first),
                           key=lambda row: (row[1], row[0])))
