"""An append-only log of the samples that the ranks of a node, their workers included, have left out
as damaged: memory without a name, which the node's reader hands over.

Each entry is one write(2) to a descriptor that is shared, with O_APPEND, so that none is torn.
"""

from __future__ import annotations

import fcntl
import os
import threading

import numpy as np

from horovod_opt.io.errors import ReaderEnded
from horovod_opt.io.node_reader import lifetime

_ENTRY = np.dtype([("epoch", "<i8"), ("sample", "<i8")])


class HoleLog:
    """Takes the descriptor. After close() it still knows what was in it."""

    def __init__(self, file: int):
        self._file = file
        self._lock = threading.Lock()
        self._begin = 0  # bytes of entries that were forgotten
        self._last = np.empty(0, _ENTRY)
        lifetime.let_go_in_children(self)

    @classmethod
    def create(cls) -> HoleLog:
        """A reader's, which is empty."""
        file = os.memfd_create("horovod-opt-io-holes", os.MFD_CLOEXEC)
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
        return cls(file)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more comes."""
        return self._file < 0

    @property
    def file(self) -> int:
        """The descriptor to hand over."""
        return self._file

    def add(self, epoch: int, samples: np.ndarray) -> int:
        """Returns how many samples of the epoch are left out by now. Raises ReaderEnded after
        close()."""
        entries = np.empty(len(samples), _ENTRY)
        entries["epoch"], entries["sample"] = epoch, samples
        with self._lock:
            if self._file < 0:
                raise ReaderEnded("the reader is closed")
            os.write(self._file, entries.tobytes())
        return len(self.by_epoch().get(epoch, ()))

    def is_first(self, epoch: int, sample: int) -> bool:
        """Whether nothing was left out before this one."""
        first = self._entries(0)[:1]
        return bool(len(first)) and (int(first["epoch"][0]), int(first["sample"][0])) == (
            epoch, sample)

    def by_epoch(self) -> dict[int, set[int]]:
        """What was left out since forget()."""
        result: dict[int, set[int]] = {}
        for epoch, sample in self._entries(self._begin).tolist():
            result.setdefault(epoch, set()).add(sample)
        return result

    def forget(self) -> None:
        """What is there by now is known otherwise."""
        self._begin = self._entries(0).nbytes

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                self._last = self._read()
                os.close(self._file)
                self._file = -1

    def let_go(self) -> None:
        """In a forked process."""
        self._lock = threading.Lock()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        self.close()

    def _entries(self, begin: int) -> np.ndarray:
        with self._lock:
            entries = self._last if self._file < 0 else self._read()
        return entries[begin // _ENTRY.itemsize:]

    def _read(self) -> np.ndarray:
        return np.frombuffer(os.pread(self._file, os.fstat(self._file).st_size, 0), _ENTRY)
