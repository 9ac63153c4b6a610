"""py-lmdb alone: every rank maps the file and copies its values out, shuffled or as they come."""

from __future__ import annotations

from collections.abc import Iterator

import lmdb
import numpy as np

from horovod_lab.io.data.formats import KEY
from horovod_lab.io.peers.stream import Place, Stream


class PyLmdb(Stream):
    def __init__(self, place: Place):
        self._place = place
        self._environment = lmdb.open(str(place.folder), readonly=True, lock=False)

    def close(self) -> None:
        self._environment.close()


class Shuffled(PyLmdb):
    """A complete shuffle, of which rank r has every ranks-th record: keys are looked up."""

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        place = self._place
        order = np.random.default_rng(number).permutation(place.records)[place.rank::place.ranks]
        with self._environment.begin() as transaction:
            get = transaction.get
            for first in range(0, len(order), place.batch):
                yield [get(KEY % record) for record in order[first:first + place.batch].tolist()]


class Strided(PyLmdb):
    """No shuffle: rank r has records r, r + ranks, ..., to which it moves a cursor one by one, as
    Caffe does (dissertation, 3.1)."""

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        place = self._place
        records = range(place.rank, place.records, place.ranks)
        with self._environment.begin() as transaction, transaction.cursor() as cursor:
            cursor.set_key(KEY % place.rank)
            for start in range(0, len(records), place.batch):
                batch = []
                for _ in records[start:start + place.batch]:
                    batch.append(cursor.value())
                    for _ in range(place.ranks):
                        cursor.next()
                yield batch


class InOrder(PyLmdb):
    """No shuffle: a cursor goes over an equal run of each rank, the least that LMDB can cost."""

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        place = self._place
        first, end = (place.records * rank // place.ranks for rank in (place.rank, place.rank + 1))
        with self._environment.begin() as transaction, transaction.cursor() as cursor:
            cursor.set_key(KEY % first)
            values = cursor.iternext(keys=False, values=True)
            for start in range(first, end, place.batch):
                yield [next(values) for _ in range(min(place.batch, end - start))]
