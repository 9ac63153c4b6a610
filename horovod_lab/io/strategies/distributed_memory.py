"""LMDBIO-LMM-DM (dissertation, 4.2): each node reads only what it needs. The cursor is handed from
reader to reader; while one waits for it, it looks at the pages that it will probably need."""

from __future__ import annotations

import struct
from typing import Optional

from horovod_lab.io.ladder.cursor import Cursor, State
from horovod_lab.io.ladder.links import Links
from horovod_lab.io.ladder.pages import Pages, read_meta
from horovod_lab.io.ladder.place import Place
from horovod_lab.io.ladder.storage_requests import StorageRequests, pages_of
from horovod_lab.io.ladder.symmetric_map import SymmetricMap
from horovod_lab.io.strategies.strategy import OneReader

CURSOR = b"c"
LEVEL = struct.Struct("<QQ")  # of a serialized cursor: address of a page, number of the node in it


class Dm(OneReader):
    """Counts `missed_pages` and `redundant_pages`, as 4.3.3 does: needed, but not looked at ahead;
    and looked at ahead, but not needed."""

    def __init__(self, place: Place, links: Links, requests: StorageRequests):
        super().__init__(place, links, requests)
        self._map: Optional[SymmetricMap] = None
        if place.is_reader:
            requests.extra |= {"missed_pages": 0, "redundant_pages": 0}
            self._meta = read_meta(place.path)
            self._map = SymmetricMap(place.path, links, place.readers)
            self._pages = Pages(self._map.view, self._meta.page_bytes, self._needs)
            self._cursor = Cursor(self._pages, self._meta.root)
            self._guessed_pages: set[int] = set()  # pages that were guessed, so far
            self._needed_pages: set[int] = set()
            self._guess = self._first_guess()
            self._fewest, self._most = 1 << 62, 0  # pages of an iteration, so far

    def read(self, iteration: int) -> list[bytes]:
        place, page_bytes = self.place, self._meta.page_bytes
        self._look_ahead()
        if iteration or place.node:
            self._cursor.go_to(self._receive_cursor())
        values = self._cursor.take(place.node_batch)
        if not (iteration == place.iterations - 1 and place.node == place.nodes - 1):
            self._pass_cursor(self._cursor.state())
        for page in self.requests.deliver(values, page_bytes):
            self._needs(page)
        records = [bytes(self._map.view[value.offset:value.offset + value.size])
                   for value in values]
        pages = [page for value in values for page in pages_of(value, page_bytes)]
        self._learn(min(pages), max(pages))
        return records

    def account(self) -> None:
        if self._map is not None:
            self.requests.extra["redundant_pages"] = len(self._guessed_pages - self._needed_pages)

    def close(self) -> None:
        if self._map is not None:
            del self._pages, self._cursor
            self._map.close()

    def _first_guess(self) -> range:
        """All records are as large as the first, and nothing is between them."""
        first, = Cursor(self._pages, self._meta.root).take(1)
        record_pages = len(pages_of(first, self._meta.page_bytes))
        begin = first.page + record_pages * self.place.first(0, self.place.rank)
        return range(begin, begin + record_pages * self.place.node_batch)

    def _look_ahead(self) -> None:
        """The kernel reads a page when one byte of it is read."""
        page_bytes = self._meta.page_bytes
        pages = range(self._guess.start, min(self._guess.stop, self._meta.last + 1))
        self.requests.look(pages, page_bytes)
        for page in pages:
            self._map.view[page * page_bytes]
        self._guessed_pages.update(pages)

    def _learn(self, first: int, last: int) -> None:
        """The next iteration begins so many readers' pages later, at least and at most; all pages
        between the two are guessed (figure 4.5)."""
        pages = last - first + 1
        self._fewest, self._most = min(self._fewest, pages), max(self._most, pages)
        nodes = self.place.nodes
        self._guess = range(first + nodes * self._fewest,
                            first + nodes * self._most + self._most)

    def _needs(self, page: int) -> None:
        self._needed_pages.add(page)
        if page not in self._guessed_pages:
            self.requests.extra["missed_pages"] += 1
            self._guessed_pages.add(page)
        self.requests.look([page], self._meta.page_bytes)

    def _pass_cursor(self, state: State) -> None:
        """As LMDB's cursor is copied: with pointers to the pages."""
        data = b"".join(
            LEVEL.pack(self._map.address + page * self._meta.page_bytes, node)
            for page, node in state)
        readers = self.place.readers
        self._send(readers[(self.place.node + 1) % len(readers)], data)

    def _send(self, rank: int, data: bytes) -> None:
        if rank == self.place.rank:
            self._own_cursor = data
        else:
            self.links.send(rank, CURSOR, data)

    def _receive_cursor(self) -> State:
        readers = self.place.readers
        before = readers[self.place.node - 1]
        data = self._own_cursor if before == self.place.rank else self.links.receive(before, CURSOR)
        return [((address - self._map.address) // self._meta.page_bytes, node)
                for address, node in LEVEL.iter_unpack(data)]
