"""PyTorch's DataLoader and DistributedSampler, over an LMDB and over a file of each record."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import lmdb
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from horovod_lab.io.data.formats import KEY, file_of
from horovod_lab.io.peers.stream import Place, Stream


class Values(Dataset):
    """Of an LMDB, opened where it is read: LMDB must not be carried over a fork."""

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


class Files(Dataset):
    """A folder with a file of each record."""

    def __init__(self, place: Place):
        self._place = place

    def __len__(self) -> int:
        return self._place.records

    def __getitem__(self, number: int) -> bytes:
        return (self._place.folder / file_of(number)).read_bytes()


class TorchFiles(TorchDataLoader):
    dataset = Files
