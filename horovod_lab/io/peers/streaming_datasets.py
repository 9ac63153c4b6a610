"""Streaming datasets: MosaicML Streaming, litData, WebDataset and Grain, over local shards.
Each is imported where it is opened: none is to pay for the others."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator

from horovod_lab.io.peers.stream import Place, Stream, join_process_group

OPERATORS = ("nms", "qnms")  # of torchvision, that are described when it is imported
BUFFER = 1000  # samples, as in WebDataset's examples
# Of what a node may hold: all buffers of WebDataset where that has a limit, to shuffle well.
MEMORY = 0.6


def import_torchvision() -> None:
    """MosaicML Streaming imports it, but its wheel for CUDA does not fit a torch for CPUs. Nothing
    here calls torchvision's operators. Where its library cannot be loaded, the import fails only
    because it describes some of them, which are declared here in its place."""
    with contextlib.suppress(RuntimeError):
        import torchvision  # noqa: F401

        return
    import torch

    import_torchvision.library = torch.library.Library("torchvision", "DEF")
    for name in OPERATORS:
        import_torchvision.library.define(
            f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision  # noqa: F401


class Mosaicml(Stream):
    """In PyTorch's DataLoader, as its documentation has it."""

    def __init__(self, place: Place):
        from torch.utils.data import DataLoader

        os.environ.update(RANK=str(place.rank), LOCAL_RANK=str(place.local_rank),
                          WORLD_SIZE=str(place.ranks), LOCAL_WORLD_SIZE=str(place.local_ranks))
        # Another path for each job: the shared memory of one that was killed stays, and names it.
        alias = place.rendezvous / "mds"
        if place.rank == 0:
            alias.symlink_to(place.folder)
        join_process_group(place)
        import_torchvision()
        from streaming import StreamingDataset

        dataset = StreamingDataset(local=str(alias), batch_size=place.batch, shuffle=True)
        self._loader = DataLoader(
            dataset, place.batch, num_workers=place.workers, collate_fn=_mds_values,
            persistent_workers=place.workers > 0)

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        return iter(self._loader)


def _mds_values(samples: list[dict[str, bytes]]) -> list[bytes]:
    return [sample["data"] for sample in samples]


class LitData(Stream):
    """In its own StreamingDataLoader."""

    def __init__(self, place: Place):
        from litdata import StreamingDataLoader, StreamingDataset

        join_process_group(place)
        dataset = StreamingDataset(str(place.folder), shuffle=True)
        self._loader = StreamingDataLoader(
            dataset, batch_size=place.batch, num_workers=place.workers, collate_fn=_litdata_values,
            persistent_workers=place.workers > 0)

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        return iter(self._loader)


def _litdata_values(samples: list[memoryview]) -> list[bytes]:
    """Copies, as the others deliver: these are views of a file that is mapped."""
    return [*map(bytes, samples)]


class WebDataset(Stream):
    """Each rank reads shards of its own, which change places each epoch, through a buffer that is
    shuffled."""

    def __init__(self, place: Place):
        import webdataset

        os.environ.update(RANK=str(place.rank), WORLD_SIZE=str(place.ranks))
        shards = sorted(map(str, place.folder.glob("*.tar")))
        self._samples = (
            webdataset.WebDataset(shards, shardshuffle=len(shards), detshuffle=True, seed=1,
                                  nodesplitter=webdataset.split_by_node)
            .shuffle(_webdataset_buffer(place, shards)).map(_webdataset_value)
            .batched(place.batch, collation_fn=list))

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        return iter(self._samples)


def _webdataset_buffer(place: Place, shards: list[str]) -> int:
    """Samples of this rank's."""
    if place.memory is None:
        return BUFFER
    size = sum(map(os.path.getsize, shards))  # bytes, with what surrounds each sample
    return int(MEMORY * place.memory / size * place.records / place.local_ranks)


def _webdataset_value(sample: dict[str, bytes]) -> bytes:
    return sample["bin"]


class Grain(Stream):
    """Over ArrayRecord files: a complete shuffle, and batches that threads of the rank make."""

    def __init__(self, place: Place):
        import grain

        # Its defaults are 16 threads and 500 elements, for storage that answers late. Here they
        # cost more than they bring, as does making batches of single elements behind them.
        options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=16)
        source = grain.sources.ArrayRecordDataSource(
            sorted(map(str, place.folder.glob("*.array_record"))))
        shard = grain.MapDataset.source(source).shuffle(seed=1)[place.rank::place.ranks]
        batches = shard.batch(place.batch, batch_fn=list)
        self._steps = len(batches)
        self._epochs = iter(batches.repeat().to_iter_dataset(options))  # each in another order

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        return itertools.islice(self._epochs, self._steps)
