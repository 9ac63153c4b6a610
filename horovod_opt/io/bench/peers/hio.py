"""horovod_opt.io: one process of the node reads, all ranks take their samples out of its memory."""

from __future__ import annotations

from collections.abc import Iterator

import horovod_opt.io as hio
from horovod_opt.io.bench.peers.stream import Place, Stream
from horovod_opt.io.bench.peers.torch_ranks import meet


class Hio(Stream):
    def __init__(self, place: Place):
        meet(place)
        files = sorted(map(str, place.folder.glob("*.tfrecord"))) or str(place.folder)
        self._data = hio.open(files, seed=1)
        self._loader = hio.torch.loader(self._data, batch_size=place.batch, workers=place.workers)

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        return iter(self._loader)

    def close(self) -> None:
        self._data.close()
