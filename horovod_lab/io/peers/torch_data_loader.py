"""PyTorch's DataLoader and DistributedSampler over an LMDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import lmdb
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from horovod_lab.io.data.formats import KEY
from horovod_lab.io.peers.stream import Place, Stream


class Values(Dataset):
    """Opened where it is read: LMDB must not be carried over a fork."""

    def __init__(self, place: Place):
        self._place = place
        self._transaction = None

    def __len__(self) -> int:
        return self._place.records

    def __getitem__(self, number: int) -> bytes:
        if self._transaction is None:
            self._transaction = lmdb.open(
                str(self._place.folder), readonly=True, lock=False).begin()
        return self._transaction.get(KEY % number)


class TorchDataLoader(Stream):
    dataset: Callable[[Place], Dataset] = Values

    def __init__(self, place: Place):
        dataset = self.dataset(place)
        self._sampler = DistributedSampler(dataset, place.ranks, place.rank, shuffle=True)
        self._loader = DataLoader(
            dataset, place.batch, sampler=self._sampler, num_workers=place.workers,
            collate_fn=list, persistent_workers=place.workers > 0)

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        self._sampler.set_epoch(number)
        return iter(self._loader)
