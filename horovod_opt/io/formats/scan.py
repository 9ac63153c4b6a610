"""What the scan of one file finds: where its samples are, not their bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from horovod_opt.io.formats.texts import Texts


@dataclass(frozen=True)
class Scan:
    """The n samples of one file, in the file's order; P parts make a sample.

    `offset` and `size` are int64[n, P], in bytes; `crc` is the crc32c of each part, uint32[n, P],
    or None where the file does not hold it. `keys` is None where samples have none of their own.
    `damaged` describes records that do not match the checksum that the file holds for them.
    """

    parts: tuple[str, ...]
    offset: np.ndarray
    size: np.ndarray
    crc: np.ndarray | None = None
    keys: Texts | None = None
    damaged: list[str] = field(default_factory=list)
