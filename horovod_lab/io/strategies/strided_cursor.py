"""Strategies whose cursor goes from record to record, also over those that others take: LMDB, as
Caffe reads it, and LMDBIO-LMM."""

from __future__ import annotations

import mmap
import time
from collections.abc import Iterator
from typing import Optional

import lmdb

from horovod_lab.io.ladder.cursor import Cursor
from horovod_lab.io.ladder.links import Links
from horovod_lab.io.ladder.pages import Pages, read_meta
from horovod_lab.io.ladder.place import Place
from horovod_lab.io.ladder.storage_requests import StorageRequests
from horovod_lab.io.strategies.strategy import OneReader, Strategy


class StridedCursor:
    """py-lmdb's cursor, used as Caffe uses LMDB's. `count` records, then `step - count` that are
    skipped, and so on; the first after `first` skipped ones. Raises DataError for a file that is
    none, or empty."""

    def __init__(self, folder: str, first: int, count: int, step: int, requests: StorageRequests):
        self._path, self._requests = f"{folder}/data.mdb", requests
        self._count, self._gap, self._skip = count, step - count, first
        self._meta = read_meta(self._path)
        self._environment = lmdb.open(folder, readonly=True, lock=False)
        self._transaction = self._environment.begin()
        self._cursor = self._transaction.cursor()
        self._cursor.first()
        self._times: list[tuple[int, int, int]] = []  # skipped, began, ended (ns)

    def read(self) -> list[bytes]:
        """The next `count` records."""
        begin, cursor, records = time.monotonic_ns(), self._cursor, []
        for _ in range(self._skip):
            cursor.next() or cursor.first()
        for _ in range(self._count):
            records.append(cursor.value())
            cursor.next() or cursor.first()
        self._times.append((self._skip, begin, time.monotonic_ns()))
        self._skip = self._gap
        return records

    def account(self) -> None:
        """Says what pages LMDB has looked at: it cannot be asked, so a cursor that looks at the
        same ones goes the same way again."""
        pages: list[int] = []
        page_bytes = self._meta.page_bytes
        with open(self._path, "rb") as file, \
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping, \
                memoryview(mapping) as view:
            cursor = Cursor(Pages(view, page_bytes, pages.append), self._meta.root)
            for skip, begin, end in self._times:
                cursor.take(skip)
                pages += self._requests.deliver(cursor.take(self._count), page_bytes)
                self._requests.look_within(pages, page_bytes, begin, end)
                pages.clear()

    def close(self) -> None:
        self._cursor.close()
        self._transaction.abort()
        self._environment.close()


class Lmdb(Strategy):
    """The baseline (dissertation, 3.1): every rank maps the file, and its cursor goes over the
    records of all others."""

    def __init__(self, place: Place, links: Links, requests: StorageRequests):
        super().__init__(place, links, requests)
        self._cursor = StridedCursor(place.folder, place.first(0, place.rank), place.batch,
                                     place.global_batch, requests)

    def batches(self) -> Iterator[list[bytes]]:
        for _ in range(self.place.iterations):
            yield self._cursor.read()

    def account(self) -> None:
        self._cursor.account()

    def close(self) -> None:
        self._cursor.close()


class Lmm(OneReader):
    """Localized mmap (dissertation, 3.2): one rank of each node maps the file and reads for all
    ranks of the node. Its cursor still goes over the records of the other nodes."""

    def __init__(self, place: Place, links: Links, requests: StorageRequests):
        super().__init__(place, links, requests)
        self._cursor: Optional[StridedCursor] = None
        if place.is_reader:
            self._cursor = StridedCursor(place.folder, place.first(0, place.rank), place.node_batch,
                                         place.global_batch, requests)

    def read(self, iteration: int) -> list[bytes]:
        return self._cursor.read()

    def account(self) -> None:
        if self._cursor is not None:
            self._cursor.account()

    def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
