"""The index of a data set: where each sample is, and the checksum of each of its parts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from horovod_opt.io.formats.columns import Texts
from horovod_opt.io.index.files import Files

DIGEST_BYTES = 16


@dataclass(frozen=True, eq=False)
class Index:
    """N samples of P parts, in the data set's natural order. Its arrays cannot be written.

    `root` is the folder that names in `files` are relative to. Of shape [N, P] are `file` (int32,
    number in `files`), `offset` and `size` (int64, bytes) and `crc` (uint32, crc32c, or None where
    no checksums were asked for). `label` (int32[N]) is the number in `classes`, or None without
    classes. `digest` (16 bytes) is the identity of names, sizes and numbers of samples: what an
    order belongs to. `transactions` is LMDB's last one in each file. `place` is where it is kept,
    and `fingerprint` is that of all but its place and the checksums. `truncated`: numbers of files
    that end too early, and what is wrong with each: samples are those before that. `raw_size`
    (int64[N, P]) is of each part once it is expanded, or None where nothing is compressed.
    `unpacked` (int64[files]): the bytes that compressed files have once they are unpacked, -1 for
    plain ones, or None where all are plain; `offset` counts in these bytes.
    """

    format: str
    root: str
    files: Files
    parts: tuple[str, ...]
    classes: tuple[str, ...]
    file: np.ndarray
    offset: np.ndarray
    size: np.ndarray
    crc: np.ndarray | None
    label: np.ndarray | None
    keys: Texts | None
    transactions: tuple[int, ...]
    digest: bytes
    place: str = ""
    fingerprint: str = ""
    truncated: tuple[tuple[int, str], ...] = ()
    raw_size: np.ndarray | None = None
    unpacked: np.ndarray | None = None

    @property
    def samples(self) -> int:
        """N."""
        return len(self.offset)

    @property
    def whole(self) -> Index:
        """The one that is kept in a file."""
        return self

    def of(self, whole: Index) -> Index:
        """What is wanted of another one of the same data, as it is of the whole() of this one."""
        return whole

    def lacks(self, samples: np.ndarray) -> np.ndarray | None:
        """Which of these samples (int64[k]) lack which part: bool[k, P]; None where none does."""
        return None

    @property
    def truncations(self) -> list[str]:
        """What is wrong with files that end too early."""
        return [f"{self.path(file)}{reason}" for file, reason in self.truncated]

    def is_packed(self, file: int) -> bool:
        """Whether a file is compressed as a whole."""
        return self.unpacked is not None and self.unpacked[file] >= 0

    @property
    def lengths(self) -> np.ndarray:
        """Bytes of each file that samples may lie in, int64[files]."""
        if self.unpacked is None:
            return self.files.sizes
        return np.where(self.unpacked >= 0, self.unpacked, self.files.sizes)

    def path(self, file: int) -> str:
        """Where a file is. Raises IndexError for a number that is none."""
        return os.path.join(self.root, self.files[file].name)

    def key(self, sample: int) -> str:
        """A name for messages: path in a folder, key of tar or LMDB (hexadecimal where it is no
        text), "" for TFRecord. Raises IndexError outside of 0 <= sample < N."""
        if not 0 <= sample < self.samples:
            raise IndexError(f"sample {sample} of {self.samples}")
        if self.keys is not None:
            return self.keys[sample]
        return self.files[self.file[sample, 0]].name if self.format == "folder" else ""


def identity(kind: str, files: Files, file: np.ndarray) -> bytes:
    """`Index.digest`, from the format, the files, and the file of each sample (int[N], sorted)."""
    state = blake2b(digest_size=DIGEST_BYTES, person=b"horovod-opt.io")
    counts = np.diff(np.searchsorted(file, np.arange(len(files) + 1, dtype=file.dtype)))
    for piece in (kind.encode(), files.names.blob.tobytes(),
                  *(np.ascontiguousarray(column, "<i8").tobytes()
                    for column in (files.names.ends, files.sizes, counts))):
        state.update(len(piece).to_bytes(8, "little"))
        state.update(piece)
    return state.digest()
