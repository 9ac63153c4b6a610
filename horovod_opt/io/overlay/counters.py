"""What programs of a node did with the files, added up on a page that they share:
csrc/io/overlay/session.h."""

from __future__ import annotations

import mmap
import os

import numpy as np

NAMES = ("opens_local", "opens_store", "stat_answered", "folders_listed", "refused",
         "storage_bytes", "failures")


class Counters:
    """`fd`: of the page, which has no name."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("hvdopt-counters", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, mmap.PAGESIZE)
        self._page = mmap.mmap(self.fd, mmap.PAGESIZE)
        self._values = np.frombuffer(self._page, "<u8", len(NAMES))

    def values(self) -> dict[str, int]:
        """Of all programs that have ended or still run."""
        return dict(zip(NAMES, self._values.tolist()))
