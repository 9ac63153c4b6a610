"""An index whose compressed files are where a node has unpacked them."""

from __future__ import annotations

import os

import numpy as np

from horovod_opt.io.formats.columns import Texts
from horovod_opt.io.index.data_index import Index
from horovod_opt.io.index.files import Files


class UnpackedIndex:
    """What the reader and its ranks need of an index to read by: `file`, `offset` and `size`
    ([N, P]), `crc`, `label`, `root`, and `files`, behind which comes the one that `descriptor`,
    this process's own, is of."""

    def __init__(self, index: Index, descriptor: int):
        status = os.fstat(descriptor)
        self.root, self.size, self.crc, self.label = index.root, index.size, index.crc, index.label
        name = Texts.of([f"/proc/self/fd/{descriptor}".encode()])
        self.files = Files(
            Texts.concatenate([index.files.names, name]),
            np.append(index.files.sizes, status.st_size),
            np.append(index.files.mtimes_ns, status.st_mtime_ns))
        is_packed = (index.unpacked >= 0)[index.file]
        self.file = np.where(is_packed, len(index.files), index.file).astype(np.int32)
        self.offset = index.offset + np.where(is_packed, begins_of(index)[index.file], 0)


def begins_of(index: Index) -> np.ndarray:
    """Where the contents of each file begin among those of all: int64[files]."""
    sizes = np.maximum(index.unpacked, 0)
    return np.cumsum(sizes) - sizes
