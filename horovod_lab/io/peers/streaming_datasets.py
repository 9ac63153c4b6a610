"""MosaicML Streaming over local shards, in PyTorch's DataLoader, as its documentation has it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from torch.utils.data import DataLoader

from horovod_lab.io.peers import torchvision_import
from horovod_lab.io.peers.stream import Place, Stream
from horovod_lab.io.peers.torch_ranks import meet


class Mosaicml(Stream):
    def __init__(self, place: Place):
        os.environ.update(RANK=str(place.rank), LOCAL_RANK=str(place.local_rank),
                          WORLD_SIZE=str(place.ranks), LOCAL_WORLD_SIZE=str(place.local_ranks))
        # Another path for each job: the shared memory of one that was killed stays, and names it.
        own = place.meeting / "mds"
        if place.rank == 0:
            own.symlink_to(place.folder)
        meet(place)
        torchvision_import.allow()
        from streaming import StreamingDataset

        dataset = StreamingDataset(local=str(own), batch_size=place.batch, shuffle=True)
        self._loader = DataLoader(
            dataset, place.batch, num_workers=place.workers, collate_fn=_values,
            persistent_workers=place.workers > 0)

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        return iter(self._loader)


def _values(samples: list[dict[str, bytes]]) -> list[bytes]:
    return [one["data"] for one in samples]
