"""horovod_opt.io in the data's own order: what users get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

import horovod_opt.io as hio
from horovod_lab.io.ladder.links import Links
from horovod_lab.io.ladder.place import Place
from horovod_lab.io.ladder.storage_requests import StorageRequests
from horovod_lab.io.strategies.strategy import Strategy
from horovod_opt.io.decoder import read_steps
from horovod_opt.io.step_source import StepSource

# Of what the node may hold, for its node cache; the rest is for the page cache and the ranks.
PART = 0.5


class Hio(Strategy):
    """The ranks meet over the ladder's own links, and the ladder's nodes are nodes."""

    def __init__(self, place: Place, links: Links, requests: StorageRequests):
        super().__init__(place, links, requests)
        self._ranks = hio.Communication(place.rank, place.ranks, links.allgather, str(place.node))
        self._open()

    def _open(self, chunk_samples: Optional[int] = None) -> None:
        """With smaller chunks where the memory does not hold these."""
        place = self.place
        memory = None if place.memory is None else int(PART * place.memory)
        self._data = hio.open(place.folder, shuffle=False, memory=memory,
                              chunk_samples=chunk_samples, ranks=self._ranks)
        try:
            self._source = StepSource(self._data, place.batch, None, "drop", epochs=1)
        except hio.InputError:
            chunk_samples = self._data.order.chunk_samples // 2
            self._data.close()
            if not chunk_samples:
                raise
            self._open(chunk_samples)

    def batches(self) -> Iterator[list[bytes]]:
        remaining = self.place.iterations
        for steps in self._source.step_groups(self._source.begin()):
            for step_samples in read_steps(self._data, self._source.member, steps, True):
                if not remaining:
                    return
                remaining -= 1
                yield step_samples.samples.plain()

    def account(self) -> None:
        """Of the node's reader: it does not say which bytes, and what it finds in the page cache it
        leaves there and maps."""
        if self.place.is_reader:
            self.requests.extra |= {name: value for name, value in self._data.stats().items()
                                if name.startswith("node_")}

    def close(self) -> None:
        self._data.close()
