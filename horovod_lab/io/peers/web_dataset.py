"""WebDataset: each rank reads shards of its own, which change places each epoch, through a buffer
that is shuffled."""

from __future__ import annotations

import os
from collections.abc import Iterator

import webdataset

from horovod_lab.io.peers.stream import Place, Stream

BUFFER = 1000  # samples, as in WebDataset's examples
MEMORY = 0.6  # of what a node may hold: all its buffers where that has a limit, to shuffle well


class WebDataset(Stream):
    def __init__(self, place: Place):
        os.environ.update(RANK=str(place.rank), WORLD_SIZE=str(place.ranks))
        shards = sorted(map(str, place.folder.glob("*.tar")))
        self._samples = (
            webdataset.WebDataset(shards, shardshuffle=len(shards), detshuffle=True, seed=1,
                                  nodesplitter=webdataset.split_by_node)
            .shuffle(_buffer(place, shards)).map(_value).batched(place.batch, collation_fn=list))

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        return iter(self._samples)


def _buffer(place: Place, shards: list[str]) -> int:
    """Samples of this rank's."""
    if place.memory is None:
        return BUFFER
    size = sum(map(os.path.getsize, shards))  # bytes, with what surrounds each sample
    return int(MEMORY * place.memory / size * place.records / place.local_ranks)


def _value(sample: dict[str, bytes]) -> bytes:
    return sample["bin"]
