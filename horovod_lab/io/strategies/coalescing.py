"""Coalescing: few large reads in place of many small ones, and staggering: readers one after the
other.

The records of a node's iterations are not beside each other: those of other nodes are between them.
So of the records of several iterations each reader fetches one run, an equal part of them, and the
readers exchange what others need. The source does not say how it deals such a run out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from horovod_lab.io.ladder import provenance
from horovod_lab.io.ladder.links import Links
from horovod_lab.io.ladder.pages import read_meta
from horovod_lab.io.ladder.place import Place
from horovod_lab.io.ladder.storage_requests import StorageRequests
from horovod_lab.io.strategies.strategy import OneReader
from horovod_opt.io.errors import InputError

GAP = 64 << 10  # bytes between two records that are rather read than skipped
TOKEN = b"t"


def read_runs(requests: StorageRequests, file: int, offset: np.ndarray, size: int,
              page_bytes: int) -> list[bytes]:
    """Records of one size in the order of `offset`, each run of them by one call."""
    order = np.argsort(offset, kind="stable")
    records: list[bytes] = [b""] * len(offset)
    for run in _runs(offset[order], size):
        places = offset[order[run]]
        begin, end = int(places[0]), int(places[-1]) + size
        data = requests.pread(file, end - begin, begin, _gap_bytes(places, size, page_bytes))
        for i, at in zip(order[run].tolist(), (places - begin).tolist()):
            records[i] = data[at:at + size]
    return records


def _runs(offset: np.ndarray, size: int) -> Iterator[slice]:
    """Of sorted offsets."""
    ends = np.flatnonzero(np.diff(offset) > size + GAP) + 1
    for begin, end in zip([0, *ends], [*ends, len(offset)]):
        yield slice(begin, end)


def _gap_bytes(places: np.ndarray, size: int, page_bytes: int) -> int:
    """Bytes of the pages in between that hold none of these records."""
    first, last = places // page_bytes, (places + size - 1) // page_bytes
    return int(np.maximum(first[1:] - last[:-1] - 1, 0).sum()) * page_bytes


class Coal(OneReader):
    """LMDBIO-LMM-DIO-PROV-COAL (dissertation, 5.2.3): a reader fetches what several iterations need
    in one large read. Counts `exchanged_bytes`: sent to readers of other nodes."""

    def __init__(self, place: Place, links: Links, requests: StorageRequests):
        super().__init__(place, links, requests)
        if place.is_reader:
            self._file = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC)
            # Behind a run are the records of another reader: not to be read ahead.
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_RANDOM)
            meta = read_meta(place.path)
            self._layout = provenance.check(place.path, provenance.read(Path(place.folder)), meta)
            self._page_bytes = meta.page_bytes
            requests.extra["exchanged_bytes"] = 0
            self._records: list[bytes] = []  # of this node, of the iterations that were read

    def read(self, iteration: int) -> list[bytes]:
        place = self.place
        at = iteration % place.iterations_per_read
        if at == 0:
            self._records = self._exchange(
                iteration, min(iteration + place.iterations_per_read, place.iterations))
        return self._records[at * place.node_batch:(at + 1) * place.node_batch]

    def fetch(self, offset: np.ndarray) -> list[bytes]:
        """The records that are there."""
        return read_runs(self.requests, self._file, offset, self._layout.size, self._page_bytes)

    def close(self) -> None:
        if self.place.is_reader:
            os.close(self._file)

    def _exchange(self, begin: int, end: int) -> list[bytes]:
        """This node's records of these iterations."""
        place = self.place
        first, count = place.first(begin, 0), (end - begin) * place.global_batch
        share = range(first + count * place.node // place.nodes,
                      first + count * (place.node + 1) // place.nodes)
        numbers = np.arange(share.start, share.stop)
        records = self.fetch(self._layout.offset[numbers % len(self._layout.offset)])
        nodes = (numbers % place.global_batch // place.node_batch).tolist()
        parts: list[list[bytes]] = [[] for _ in range(place.nodes)]
        for node, record in zip(nodes, records):
            parts[node].append(record)
        messages = {reader: b"".join(part) for reader, part in zip(place.readers, parts)}
        self.requests.extra["exchanged_bytes"] += sum(
            len(data) for reader, data in messages.items() if reader != place.rank)
        replies = self.links.alltoall(messages)
        whole = b"".join(replies[reader] for reader in place.readers)
        size = self._layout.size
        return [whole[at:at + size] for at in range(0, len(whole), size)]


class Stag(Coal):
    """LMDBIO-LMM-DIO-PROV-COAL-STAG (dissertation, 5.2.4): only as many readers read at a time as
    there are tokens, neighbours in the file. The others wait for a token of one that has finished.

    Groups of `tokens` readers; a reader passes its token to that of the same number in the next
    group, and in the last group to the first one, for the next read. Raises InputError where
    readers are no whole number of groups."""

    def __init__(self, place: Place, links: Links, requests: StorageRequests):
        if place.nodes % place.tokens:
            raise InputError(f"--tokens {place.tokens}: {place.nodes} readers are no whole number "
                             f"of groups; remedy: one of {_divisors(place.nodes)}")
        super().__init__(place, links, requests)
        self._has_token = place.node < place.tokens

    def fetch(self, offset: np.ndarray) -> list[bytes]:
        place = self.place
        if not self._has_token:
            self.links.receive(place.readers[place.node - place.tokens], TOKEN)
        records = super().fetch(offset)
        after = place.readers[(place.node + place.tokens) % place.nodes]
        if after != place.rank:
            self.links.send(after, TOKEN)
            self._has_token = False
        return records


def _divisors(number: int) -> str:
    return ", ".join(str(divisor) for divisor in range(1, number + 1) if number % divisor == 0)
