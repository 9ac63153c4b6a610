"""PyTorch's DataLoader and DistributedSampler over a folder with a file of each record."""

from __future__ import annotations

from torch.utils.data import Dataset

from horovod_lab.io.data.formats import file_of
from horovod_lab.io.peers.stream import Place
from horovod_lab.io.peers.torch_data_loader import TorchDataLoader


class Files(Dataset):
    def __init__(self, place: Place):
        self._place = place

    def __len__(self) -> int:
        return self._place.records

    def __getitem__(self, number: int) -> bytes:
        return (self._place.folder / file_of(number)).read_bytes()


class TorchFiles(TorchDataLoader):
    dataset = Files
