"""The samples of a rank in one step, as they are stored: what `decode_batch` gets, or nobody
decodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import compression
from horovod_opt.io.order.permutation import derive_key, derive_keys
from horovod_opt.io.sample import Sample

if TYPE_CHECKING:
    from horovod_opt.io.index import Index


class SampleBatch:
    """k samples of P parts, in the order of the batch; nothing is copied of them, and what is not
    asked for costs nothing.

    `buffer`: uint8[bytes], the batch's own, may be written. `begin` and `size`: int64[k, P], where
    each part is in it: part after part, sample after sample, nothing between them. `parts`: names
    of the P parts, "jpg" and so on in a tar, one named "" in other formats. `numbers`: int64[k], in
    the data set. `epoch`, and `positions` in it, int64[k].

    `len(batch)` is k; `batch[i]` is a memoryview of the bytes of sample i, its parts one after the
    other; iterating gives all of them.
    """

    def __init__(self, index: Index, seed: int, epoch: int, numbers: np.ndarray,
                 positions: np.ndarray, buffer: np.ndarray, begin: np.ndarray, size: np.ndarray,
                 are_equal: bool = False):
        self._index, self._seed, self.epoch = index, seed, epoch
        self.numbers, self.positions = numbers, positions
        self.buffer, self.begin, self.size = buffer, begin, size
        self._known_equal = are_equal

    @property
    def parts(self) -> tuple[str, ...]:
        return self._index.parts

    @cached_property
    def labels(self) -> Optional[np.ndarray]:
        """int64[k], numbers of the classes of a folder of classes; else None."""
        label = self._index.label
        return None if label is None else label[self.numbers].astype(np.int64)

    @cached_property
    def lacks(self) -> Optional[np.ndarray]:
        """bool[k, P], which parts samples lack, which have size 0 then; None: none does."""
        return self._index.lacks(self.numbers)

    @cached_property
    def keys(self) -> list[str]:
        """Paths in a folder, keys in tar and LMDB, "" in TFRecord."""
        return [self._index.key(number) for number in self.numbers.tolist()]

    @cached_property
    def seeds(self) -> np.ndarray:
        """uint64[k], of the data set's seed, the epoch and the position alone; no two positions of
        an epoch have the same.

        The numbers of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, doi:10.1145/2660193.2660195)
        at these positions, which begin at a hash of the seed and the epoch."""
        key = derive_key(b"", self._seed, self.epoch, "samples")
        return derive_keys(key, self.positions.astype(np.uint64))[0]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: int) -> memoryview:
        begin = self.begin[i, 0]
        return memoryview(self.buffer)[begin:begin + self.size[i].sum()]

    def __iter__(self) -> Iterator[memoryview]:
        view, begin = memoryview(self.buffer), self.begin[:, 0].tolist()
        return (view[first:after] for first, after in zip(begin, [*begin[1:], len(view)]))

    def stacked(self) -> np.ndarray:
        """The buffer as uint8[k, bytes of a sample]. Raises DataError if their sizes differ."""
        if not self._are_equal:
            sizes = self.size.sum(axis=1)
            raise DataError(f"the samples of this batch have {sizes.min()} to {sizes.max()} bytes; "
                            "remedy: use begin and size, where sizes differ")
        return self.buffer.reshape(len(self), -1)

    def samples(self) -> Iterator[Sample]:
        """Each by itself."""
        return (Sample(self, i) for i in range(len(self)))

    def parts_of(self, i: int) -> list[memoryview]:
        """The parts of sample i."""
        view = memoryview(self.buffer)
        return [view[begin:begin + size]
                for begin, size in zip(self.begin[i].tolist(), self.size[i].tolist())]

    def plain(self) -> list[Any]:
        """What samples are without a decode function: their bytes; with their labels in a folder of
        classes; by part, and with "__key__", where they have several."""
        if len(self.parts) > 1:
            return [{"__key__": sample.key, **sample.parts} for sample in self.samples()]
        if len(self) and self._are_equal and len(self.buffer):
            data = self.buffer.view(f"V{len(self.buffer) // len(self)}").tolist()
        else:
            data = [sample_bytes.tobytes() for sample_bytes in self]
        labels = self.labels
        return data if labels is None else list(zip(data, labels.tolist()))

    def expanded(self) -> SampleBatch:
        """With the files of a pack as they were before they were compressed."""
        if self._index.raw_size is None:
            return self
        raw_size = self._index.raw_size[self.numbers]
        data = b"".join(expand(part, raw, self._index, number)
                        for i, number in enumerate(self.numbers.tolist())
                        for part, raw in zip(self.parts_of(i), raw_size[i].tolist()))
        ends = np.cumsum(raw_size).reshape(raw_size.shape)
        return SampleBatch(self._index, self._seed, self.epoch, self.numbers, self.positions,
                           np.frombuffer(bytearray(data), np.uint8), ends - raw_size, raw_size)

    def chosen(self, which: Sequence[int]) -> SampleBatch:
        """Some of them, copied."""
        which = np.asarray(which, np.int64)
        data = b"".join(self[i] for i in which.tolist())
        size = self.size[which]
        ends = np.cumsum(size).reshape(size.shape)
        return SampleBatch(self._index, self._seed, self.epoch, self.numbers[which],
                           self.positions[which], np.frombuffer(bytearray(data), np.uint8),
                           ends - size, size)

    @property
    def _are_equal(self) -> bool:
        """Whether parts are of the same sizes in all samples."""
        return self._known_equal or bool((self.size == self.size[:1]).all())


class PlainSamples:
    """k samples of one part that nothing is decoded of, as bytes objects. `numbers`: int64[k], in
    the data set."""

    def __init__(self, index: Index, numbers: np.ndarray, data: list[bytes]):
        self._index, self.numbers, self._data = index, numbers, data

    def __len__(self) -> int:
        return len(self._data)

    def plain(self) -> list[Any]:
        """As SampleBatch.plain() has it."""
        label = self._index.label
        return self._data if label is None else list(zip(self._data, label[self.numbers].tolist()))

    def expanded(self) -> PlainSamples:
        """As SampleBatch.expanded() has them."""
        if self._index.raw_size is None:
            return self
        raw_size = self._index.raw_size[self.numbers, 0].tolist()
        return PlainSamples(self._index, self.numbers, [
            bytes(expand(data, raw, self._index, number))
            for data, raw, number in zip(self._data, raw_size, self.numbers.tolist())])

    def chosen(self, which: Sequence[int]) -> PlainSamples:
        """Some of them."""
        return PlainSamples(self._index, self.numbers[which], [self._data[i] for i in which])


def expand(part: Union[bytes, memoryview], raw_size: int, index: Index, number: int
           ) -> Union[bytes, memoryview]:
    """A part of a sample as it was before it was compressed; itself if it was not."""
    if len(part) == raw_size:
        return part
    return compression.expand(part, raw_size, f"sample {number} ({index.key(number)})")
