"""py-lmdb's cursor, used as Caffe uses LMDB's: it goes from record to record, also over those that
others take."""

from __future__ import annotations

import mmap
import time

import lmdb

from horovod_lab.io.ladder.asked import Asked
from horovod_lab.io.ladder.cursor import Cursor
from horovod_lab.io.ladder.pages import Pages, read_meta


class Strided:
    """`count` records, then `step - count` that are skipped, and so on; the first after `first`
    skipped ones. Raises DataError for a file that is none, or empty."""

    def __init__(self, folder: str, first: int, count: int, step: int, asked: Asked):
        self._path, self._asked = f"{folder}/data.mdb", asked
        self._count, self._between, self._skip = count, step - count, first
        self._meta = read_meta(self._path)
        self._environment = lmdb.open(folder, readonly=True, lock=False)
        self._transaction = self._environment.begin()
        self._cursor = self._transaction.cursor()
        self._cursor.first()
        self._times: list[tuple[int, int, int]] = []  # skipped, began, ended (ns)

    def read(self) -> list[bytes]:
        """The next `count` records."""
        began, cursor, records = time.monotonic_ns(), self._cursor, []
        for _ in range(self._skip):
            cursor.next() or cursor.first()
        for _ in range(self._count):
            records.append(cursor.value())
            cursor.next() or cursor.first()
        self._times.append((self._skip, began, time.monotonic_ns()))
        self._skip = self._between
        return records

    def account(self) -> None:
        """Says what pages LMDB has looked at: it cannot be asked, so a cursor that looks at the
        same ones goes the same way again."""
        looked: list[int] = []
        page_bytes = self._meta.page_bytes
        with open(self._path, "rb") as file, \
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, \
                memoryview(mapped) as view:
            cursor = Cursor(Pages(view, page_bytes, looked.append), self._meta.root)
            for skipped, began, ended in self._times:
                cursor.take(skipped)
                looked += self._asked.deliver(cursor.take(self._count), page_bytes)
                self._asked.look_within(looked, page_bytes, began, ended)
                looked.clear()

    def close(self) -> None:
        self._cursor.close()
        self._transaction.abort()
        self._environment.close()
