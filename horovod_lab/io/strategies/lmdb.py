"""LMDB, the baseline, as Caffe reads it (dissertation, 3.1): every rank maps the file, and its
cursor goes over the records of all others."""

from __future__ import annotations

from collections.abc import Iterator

from horovod_lab.io.ladder.asked import Asked
from horovod_lab.io.ladder.links import Links
from horovod_lab.io.ladder.place import Place
from horovod_lab.io.ladder.strided import Strided
from horovod_lab.io.strategies.strategy import Strategy


class Lmdb(Strategy):
    def __init__(self, place: Place, links: Links, asked: Asked):
        super().__init__(place, links, asked)
        self._strided = Strided(place.folder, place.first(0, place.rank), place.batch,
                                place.global_batch, asked)

    def batches(self) -> Iterator[list[bytes]]:
        for _ in range(self.place.iterations):
            yield self._strided.read()

    def account(self) -> None:
        self._strided.account()

    def close(self) -> None:
        self._strided.close()
