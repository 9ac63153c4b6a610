"""horovod_opt.io: one process of the node reads, all ranks take their samples out of its memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Optional, Union

import horovod_opt.io as hio
from horovod_lab.io.peers.stream import Place, Stream, join_process_group

# Of what a node may hold its node cache gets what these leave.
CACHE = 0.1  # of it, for the page cache
RANK = 3 << 20  # bytes that each rank's program may grow by
KEPT, READ = 0.6, 0.2  # of what a node may hold: for what it keeps, and for its reader


class Hio(Stream):
    def __init__(self, place: Place):
        join_process_group(place)
        self._place = place
        memory = node_cache_bytes(place)
        self._open(memory, **{} if memory is None else {"window": whole_window(place.folder)})

    def _open(self, memory: Optional[int], **order: int) -> None:
        """With the default order; within a limit with the largest window that fits, or where none
        does, with as many shards of smaller chunks."""
        self._data = hio.open(pattern_of(self._place.folder), seed=1, memory=memory, **order)
        try:
            self._loader = hio.torch.loader(self._data, batch_size=self._place.batch,
                                            workers=self._place.workers,
                                            epochs=self._place.epochs)
        except hio.InputError:
            current = self._data.order
            self._data.close()
            if current.window > 1:
                self._open(memory, **order | {"window": current.window - 1})
            elif current.chunk_samples > 1:
                self._open(memory, shards=current.shards, chunk_samples=current.chunk_samples // 2)
            else:
                raise

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        return iter(self._loader)

    def close(self) -> None:
        self._data.close()


class KeepingHio(Stream):
    """Nodes keep what they have room for, all of the data if they can, and shuffle all of it."""

    def __init__(self, place: Place):
        join_process_group(place)
        data_bytes = sum(path.stat().st_size for path in place.folder.glob("*.tfrecord"))
        self._data = hio.open(
            pattern_of(place.folder), seed=1, order="ordered", memory=int(READ * place.memory),
            cache=min(int(KEPT * place.memory), int(1.1 * data_bytes / place.nodes)))
        self._loader = hio.torch.loader(self._data, batch_size=place.batch, workers=place.workers,
                                        epochs=place.epochs)

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        return iter(self._loader)

    def close(self) -> None:
        self._data.close()


def node_cache_bytes(place: Place) -> Optional[int]:
    """None: as many as the default order needs."""
    if place.memory is None:
        return None
    return max(1, int((1 - CACHE) * place.memory) - RANK * place.local_ranks)


def whole_window(folder: Path) -> int:
    """The window that shuffles all of the data."""
    with hio.open(pattern_of(folder), seed=1) as data:
        return math.ceil(data.order.chunks / data.order.shards)


def pattern_of(folder: Path) -> Union[list[str], str]:
    """What is opened of a folder with TFRecords or an LMDB."""
    return sorted(map(str, folder.glob("*.tfrecord"))) or str(folder)
