"""LMDBIO-LMM, localized mmap (dissertation, 3.2): one rank of each node maps the file and reads for
all ranks of the node. Its cursor still goes over the records of the other nodes."""

from __future__ import annotations

from typing import Optional

from horovod_lab.io.ladder.asked import Asked
from horovod_lab.io.ladder.links import Links
from horovod_lab.io.ladder.place import Place
from horovod_lab.io.ladder.strided import Strided
from horovod_lab.io.strategies.strategy import OneReader


class Lmm(OneReader):
    def __init__(self, place: Place, links: Links, asked: Asked):
        super().__init__(place, links, asked)
        self._strided: Optional[Strided] = None
        if place.leads:
            self._strided = Strided(place.folder, place.first(0, place.rank), place.node_batch,
                                    place.global_batch, asked)

    def read(self, iteration: int) -> list[bytes]:
        return self._strided.read()

    def account(self) -> None:
        if self._strided is not None:
            self._strided.account()

    def close(self) -> None:
        if self._strided is not None:
            self._strided.close()
