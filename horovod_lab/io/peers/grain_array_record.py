"""Grain over ArrayRecord files: a complete shuffle, and batches that threads of the rank make."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import grain

from horovod_lab.io.peers.stream import Place, Stream

# Its defaults are 16 threads and 500 elements, for storage that answers late. Here they cost more
# than they bring, as does making batches of single elements behind them.
READING = grain.ReadOptions(num_threads=2, prefetch_buffer_size=16)


class Grain(Stream):
    def __init__(self, place: Place):
        source = grain.sources.ArrayRecordDataSource(
            sorted(map(str, place.folder.glob("*.array_record"))))
        shard = grain.MapDataset.source(source).shuffle(seed=1)[place.rank::place.ranks]
        batches = shard.batch(place.batch, batch_fn=list)
        self._steps = len(batches)
        self._epochs = iter(batches.repeat().to_iter_dataset(READING))  # each in another order

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        return itertools.islice(self._epochs, self._steps)
