"""litData over local chunks, in its own StreamingDataLoader."""

from __future__ import annotations

from collections.abc import Iterator

from litdata import StreamingDataLoader, StreamingDataset

from horovod_lab.io.peers.stream import Place, Stream
from horovod_lab.io.peers.torch_ranks import meet


class LitData(Stream):
    def __init__(self, place: Place):
        meet(place)
        dataset = StreamingDataset(str(place.folder), shuffle=True)
        self._loader = StreamingDataLoader(
            dataset, batch_size=place.batch, num_workers=place.workers, collate_fn=_values,
            persistent_workers=place.workers > 0)

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        return iter(self._loader)


def _values(samples: list[memoryview]) -> list[bytes]:
    """Copies, as the others deliver: these are views of a file that is mapped."""
    return [*map(bytes, samples)]
