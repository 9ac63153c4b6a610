"""Direct I/O: readers know where their records are, and fetch each with pread, through the page
cache."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

from horovod_lab.io.ladder import provenance
from horovod_lab.io.ladder.cursor import Cursor
from horovod_lab.io.ladder.links import Links
from horovod_lab.io.ladder.pages import Pages, read_meta
from horovod_lab.io.ladder.place import Place
from horovod_lab.io.ladder.storage_requests import StorageRequests
from horovod_lab.io.strategies.strategy import OneReader

PLACES = b"p"


class Dio(OneReader):
    """LMDBIO-LMM-DIO (dissertation, 5.2.1): one process of the job goes through the mapped database
    and hands out where the records are."""

    def __init__(self, place: Place, links: Links, requests: StorageRequests):
        super().__init__(place, links, requests)
        if place.is_reader:
            self._file = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC)
            self._places = self.find()

    def find(self) -> np.ndarray:
        """Offset and size of each record of this node, int64[records, 2], iteration by iteration:
        rank 0 seeks before the first iteration, for all of them."""
        place = self.place
        if place.rank:
            return np.frombuffer(self.links.receive(0, PLACES), np.int64).reshape(-1, 2)
        places = self._seek().reshape(place.iterations, place.nodes, place.node_batch, 2)
        for node, reader in enumerate(place.readers):
            if reader:
                self.links.send(reader, PLACES, places[:, node].tobytes())
        return places[:, 0].reshape(-1, 2)

    def _seek(self) -> np.ndarray:
        """An offset is the address of the value less that of the mapping."""
        meta = read_meta(self.place.path)
        with mmap.mmap(self._file, 0, access=mmap.ACCESS_READ) as mapping, \
                memoryview(mapping) as view:
            pages = Pages(view, meta.page_bytes,
                          lambda page: self.requests.look([page], meta.page_bytes))
            values = Cursor(pages, meta.root).take(
                self.place.iterations * self.place.global_batch)
        return np.array([(value.offset, value.size) for value in values], np.int64)

    def read(self, iteration: int) -> list[bytes]:
        first = iteration * self.place.node_batch
        return [self.requests.pread(self._file, size, offset)
                for offset, size in self._places[first:first + self.place.node_batch].tolist()]

    def close(self) -> None:
        if self.place.is_reader:
            os.close(self._file)


class Prov(Dio):
    """LMDBIO-LMM-DIO-PROV (dissertation, 5.2.2): every reader computes where its records are, from
    six numbers of how the database was made. Nobody seeks. Raises DataError where the file's meta
    page says that it was made in another way."""

    def find(self) -> np.ndarray:
        place = self.place
        layout = provenance.check(place.path, provenance.read(Path(place.folder)),
                                  read_meta(place.path))
        firsts = [place.first(iteration, place.rank) for iteration in range(place.iterations)]
        numbers = np.add.outer(firsts, np.arange(place.node_batch)).ravel() % len(layout.offset)
        offset = layout.offset[numbers]
        return np.stack([offset, np.full_like(offset, layout.size)], axis=1)
