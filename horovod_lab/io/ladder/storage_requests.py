"""What one process asks of the storage: counted where it asks, so it is the same on every testbed.

Through a mapping, a request is the first look at a page, as the source counts by taking the
protection of pages away (dissertation, 4.1.1). With pread, it is a call. What the kernel makes of
it, with its page cache and its readahead, the server of a testbed counts.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from horovod_lab.io.ladder.pages import Value


class StorageRequests:
    """`log`: of each request, when (ns of the monotonic clock), offset and bytes. `extra`: what a
    strategy counts beside that."""

    def __init__(self) -> None:
        self.log = (array("q"), array("q"), array("q"))
        self.extra: dict[str, float] = {}
        self._pages: set[int] = set()
        self._record_pages: set[int] = set()  # pages that hold a record which was delivered
        self._page_bytes = 0
        self._read = self._seeking = 0  # bytes, by pread

    def add(self, offset: int, size: int, when: int) -> None:
        for column, value in zip(self.log, (when, offset, size)):
            column.append(value)

    def look(self, pages: Iterable[int], page_bytes: int) -> None:
        """This process looks at pages of its mapping, now."""
        self._page_bytes = page_bytes
        for page in pages:
            if page not in self._pages:
                self._pages.add(page)
                self.add(page * page_bytes, page_bytes, time.monotonic_ns())

    def look_within(self, pages: Sequence[int], page_bytes: int, begin: int, end: int) -> None:
        """It has looked at them between two times (ns), evenly: nobody noted when."""
        self._page_bytes = page_bytes
        new = [page for page in dict.fromkeys(pages) if page not in self._pages]
        for i, page in enumerate(new):
            self.add(page * page_bytes, page_bytes, begin + (end - begin) * i // len(new))
        self._pages.update(new)

    def deliver(self, values: Iterable[Value], page_bytes: int) -> list[int]:
        """Records are copied out of the mapping; returns their pages."""
        pages = [page for value in values for page in pages_of(value, page_bytes)]
        self._record_pages.update(pages)
        return pages

    def pread(self, file: int, size: int, offset: int, seeking: int = 0) -> bytes:
        """`seeking`: bytes of it that are of pages without records. Raises OSError where the file
        ends."""
        self.add(offset, size, time.monotonic_ns())
        self._read += size
        self._seeking += seeking
        data = os.pread(file, size, offset)
        while len(data) < size:
            piece = os.pread(file, size - len(data), offset + len(data))
            if not piece:
                raise OSError(f"the file ends at byte {offset + len(data)}, but a record goes on "
                              f"to byte {offset + size}; remedy: copy or make it again")
            data += piece
        return data

    def counts(self) -> dict[str, float]:
        """`requests`, `bytes`, and of those `seeking_bytes`: of pages that were read on the way to
        records, and hold none that this process delivers."""
        pages, seeking = len(self._pages), len(self._pages - self._record_pages)
        return {"requests": len(self.log[0]), "bytes": pages * self._page_bytes + self._read,
                "seeking_bytes": seeking * self._page_bytes + self._seeking, **self.extra}


def pages_of(value: Value, page_bytes: int) -> range:
    return range(value.offset // page_bytes,
                 (value.offset + max(value.size, 1) - 1) // page_bytes + 1)


def inversions(logs: Sequence[np.ndarray]) -> int:
    """Requests that go back: that begin before the one before them, of all processes together. Each
    log is int64[3, requests]."""
    when, offset, _ = np.concatenate(logs, axis=1)
    offset = offset[np.argsort(when, kind="stable")]
    return int((np.diff(offset) < 0).sum())
