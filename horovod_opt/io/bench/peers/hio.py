"""horovod_opt.io: one process of the node reads, all ranks take their samples out of its memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Optional, Union

import horovod_opt.io as hio
from horovod_opt.io.bench.peers.stream import Place, Stream
from horovod_opt.io.bench.peers.torch_ranks import meet

MEMORY = 0.7  # of what the node may hold: its ring; the rest is for the page cache and the ranks


class Hio(Stream):
    def __init__(self, place: Place):
        meet(place)
        self._place = place
        self._open(None if place.memory is None else int(MEMORY * place.memory))

    def _open(self, memory: Optional[int], window: Optional[int] = None,
              chunk_samples: Optional[int] = None) -> None:
        """With the default window, or the largest that fits into the memory; where none does, with
        smaller chunks."""
        self._data = hio.open(pattern_of(self._place.folder), seed=1, memory=memory, window=window,
                              chunk_samples=chunk_samples)
        try:
            self._loader = hio.torch.loader(self._data, batch_size=self._place.batch,
                                            workers=self._place.workers,
                                            epochs=self._place.epochs)
        except hio.InputError:
            order = self._data.order
            self._data.close()
            if order.window > 1:
                self._open(memory, order.window - 1, chunk_samples)
            elif order.chunk_samples > 1:
                self._open(memory, None, order.chunk_samples // 2)
            else:
                raise

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        return iter(self._loader)

    def close(self) -> None:
        self._data.close()


def pattern_of(folder: Path) -> Union[list[str], str]:
    """What is opened of a folder with TFRecords or an LMDB."""
    return sorted(map(str, folder.glob("*.tfrecord"))) or str(folder)
