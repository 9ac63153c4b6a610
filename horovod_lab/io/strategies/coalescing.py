"""LMDBIO-LMM-DIO-PROV-COAL (dissertation, 5.2.3): a reader fetches what several iterations need in
one large read.

The records of a node's iterations are not beside each other: those of other nodes are between them.
So of the records of several iterations each reader fetches one run, an equal part of them, and the
readers exchange what others need. The source does not say how it deals such a run out.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from horovod_lab.io.ladder import provenance, runs
from horovod_lab.io.ladder.asked import Asked
from horovod_lab.io.ladder.links import Links
from horovod_lab.io.ladder.pages import read_meta
from horovod_lab.io.ladder.place import Place
from horovod_lab.io.strategies.strategy import OneReader


class Coal(OneReader):
    """Counts `exchanged_bytes`: sent to readers of other nodes."""

    def __init__(self, place: Place, links: Links, asked: Asked):
        super().__init__(place, links, asked)
        if place.leads:
            self._file = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC)
            # Behind a run are the records of another reader: not to be read ahead.
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_RANDOM)
            meta = read_meta(place.path)
            self._layout = provenance.check(place.path, provenance.read(Path(place.folder)), meta)
            self._page_bytes = meta.page_bytes
            asked.more["exchanged_bytes"] = 0
            self._held: list[bytes] = []  # of this node, of the iterations that were read

    def read(self, iteration: int) -> list[bytes]:
        place = self.place
        at = iteration % place.coalesced
        if at == 0:
            self._held = self._exchanged(
                iteration, min(iteration + place.coalesced, place.iterations))
        return self._held[at * place.node_batch:(at + 1) * place.node_batch]

    def fetch(self, offset: np.ndarray) -> list[bytes]:
        """The records that are there."""
        return runs.read(self.asked, self._file, offset, self._layout.size, self._page_bytes)

    def close(self) -> None:
        if self.place.leads:
            os.close(self._file)

    def _exchanged(self, begin: int, end: int) -> list[bytes]:
        """This node's records of these iterations."""
        place = self.place
        first, count = place.first(begin, 0), (end - begin) * place.global_batch
        mine = range(first + count * place.node // place.nodes,
                     first + count * (place.node + 1) // place.nodes)
        numbers = np.arange(mine.start, mine.stop)
        records = self.fetch(self._layout.offset[numbers % len(self._layout.offset)])
        nodes = (numbers % place.global_batch // place.node_batch).tolist()
        parts: list[list[bytes]] = [[] for _ in range(place.nodes)]
        for node, record in zip(nodes, records):
            parts[node].append(record)
        sent = {leader: b"".join(part) for leader, part in zip(place.leaders, parts)}
        self.asked.more["exchanged_bytes"] += sum(
            len(data) for leader, data in sent.items() if leader != place.rank)
        got = self.links.exchange(sent)
        whole, size = b"".join(got[leader] for leader in place.leaders), self._layout.size
        return [whole[at:at + size] for at in range(0, len(whole), size)]
