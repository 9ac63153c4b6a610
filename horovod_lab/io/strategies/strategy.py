"""What every rung of the ladder is to the benchmark: a rank's batches, in Caffe's order."""

from __future__ import annotations

from collections.abc import Iterator

from horovod_lab.io.ladder.links import Links
from horovod_lab.io.ladder.place import Place
from horovod_lab.io.ladder.shared_buffer import SharedBuffer
from horovod_lab.io.ladder.storage_requests import StorageRequests


class Strategy:
    """Collective: every rank of the job makes one. Counts in `requests` what it asks of the
    storage.

    Raises DataError or InputError where the data or the place cannot be used.
    """

    def __init__(self, place: Place, links: Links, requests: StorageRequests):
        self.place, self.links, self.requests = place, links, requests

    def batches(self) -> Iterator[list[bytes]]:
        """This rank's records of each iteration."""
        raise NotImplementedError

    def account(self) -> None:
        """After the last batch: counts what could not be counted on the way."""

    def close(self) -> None:
        """Other ranks may go on for a moment."""


class OneReader(Strategy):
    """One rank of each node reads, and the others take their records out of the node's shared
    buffer."""

    def __init__(self, place: Place, links: Links, requests: StorageRequests):
        super().__init__(place, links, requests)
        self._buffer = SharedBuffer(place, links)

    def read(self, iteration: int) -> list[bytes]:
        """The records of this node."""
        raise NotImplementedError

    def batches(self) -> Iterator[list[bytes]]:
        for iteration in range(self.place.iterations):
            if self.place.is_reader:
                self._buffer.put(self.read(iteration))
            yield self._buffer.take()
