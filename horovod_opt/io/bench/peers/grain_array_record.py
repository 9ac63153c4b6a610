"""Grain over ArrayRecord files: a complete shuffle, read by threads of the rank."""

from __future__ import annotations

from collections.abc import Iterator

import grain

from horovod_opt.io.bench.peers.stream import Place, Stream


class Grain(Stream):
    def __init__(self, place: Place):
        self._place = place
        self._source = grain.sources.ArrayRecordDataSource(
            sorted(map(str, place.folder.glob("*.array_record"))))

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        place = self._place
        own = grain.MapDataset.source(self._source).shuffle(seed=number + 1)[
            place.rank::place.ranks]
        return iter(own.to_iter_dataset().batch(place.batch, batch_fn=list))
