"""Batches for PyTorch, through the node's reader."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Optional

from torch.utils.data import DataLoader, Dataset, default_collate

from horovod_opt.io.batch import BatchInfo, with_info
from horovod_opt.io.data import Data
from horovod_opt.io.decoding import Decode, Decoded, decoded, plain
from horovod_opt.io.errors import InputError
from horovod_opt.io.prefetching import prefetched
from horovod_opt.io.reading import Reading
from horovod_opt.io.torch.batch_sampler import Chosen, chosen
from horovod_opt.io.torch.dataset import seeding

Collate = Callable[[Sequence[Any]], Any]


class Loader:
    """This rank's batches of each epoch, decoded ahead of the training.

    Every rank makes one with the same arguments, and loops over it equally often: each loop is an
    epoch, and after `data.load_state_dict()` what is left of one. A loop that is left early is
    begun anew by the next. `len()` is the number of batches of a whole epoch, equal on all ranks.

    A batch is what `collate` makes of the decoded samples (by default PyTorch's default_collate),
    and has an attribute `info` (BatchInfo): weight, epoch, positions. Where a rank's samples are
    all damaged and left out (bad="skip"), the batch is that of nothing if `collate` can make one,
    else its `data` is None, and the weight is 0.

    Args:
        data: what `hio.open` returned.
        batch_size: samples of a rank's batch; or
        global_batch_size: of all ranks' together, which stays as it is when ranks come or go.
        decode: takes a `Sample`; without, a sample is its bytes (decoding.plain).
        workers: processes that decode; 0: threads of this one do.
        threads: that decode, without workers; for functions that do not hold Python's lock.
        prefetch: batches that are ready before they are asked for; of each worker.
        last: of the remainder of an epoch: "spread", "drop" or "mask".
        epochs: after so many nothing is read ahead.
        context: how workers start, such as "fork" or "forkserver"; by default as DataLoader's do.
    """

    def __init__(self, data: Data, batch_size: Optional[int] = None, *,
                 global_batch_size: Optional[int] = None, decode: Optional[Decode] = None,
                 collate: Optional[Collate] = None, workers: int = 0, threads: int = 1,
                 prefetch: int = 2, last: str = "spread", epochs: Optional[int] = None,
                 context: Optional[str] = None):
        for name, value, least in (("workers", workers, 0), ("threads", threads, 1),
                                   ("prefetch", prefetch, 1)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"{name}={value!r}; remedy: a whole number of at least {least}")
        if workers and threads > 1:
            raise InputError(f"workers={workers} and threads={threads}; remedy: one of them")
        self._data, self._decode = data, decode
        self._collate = collate or default_collate
        self._threads, self._prefetch = threads, prefetch
        self._reading = Reading(data, batch_size, global_batch_size, last, epochs)
        self._loader = None
        if workers:
            self._loader = DataLoader(
                _Steps(data, decode), batch_sampler=_Sampler(self._reading), num_workers=workers,
                collate_fn=_Collate(self._collate), prefetch_factor=prefetch,
                persistent_workers=True, multiprocessing_context=context)

    def __len__(self) -> int:
        return self._reading.steps

    def __iter__(self) -> Iterator[Any]:
        batches = self._by_threads() if self._loader is None else self._by_workers()
        with closing(batches):
            while True:
                start = time.perf_counter()
                item = next(batches, None)
                self._reading.training_waited += time.perf_counter() - start
                if item is None:
                    return
                batch, info, holes = item
                if holes:
                    self._data.holes.setdefault(info.epoch, []).extend(holes)
                self._data.advance(info.epoch, info.end)
                self._reading.publish()
                yield with_info(batch, info)

    def _by_threads(self) -> Iterator[tuple[Any, BatchInfo, list[int]]]:
        reading = self._reading
        epoch = reading.begin()

        def batches() -> Iterator[tuple[Any, BatchInfo, list[int]]]:
            pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None
            try:
                for step in reading.samples(epoch):
                    found = decoded(self._data, reading.member, step, self._decode, pool)
                    yield collated(found, step.info, self._data.ranks.size, self._collate)
            finally:
                if pool is not None:
                    pool.shutdown(cancel_futures=True)

        return prefetched(batches(), self._prefetch)

    def _by_workers(self) -> Iterator[tuple[Any, BatchInfo, list[int]]]:
        yield from self._loader


def collated(found: Decoded, info: BatchInfo, ranks: int, collate: Collate
             ) -> tuple[Any, BatchInfo, list[int]]:
    """The batch, what it says of itself, and the samples that were left out."""
    if found.holes:
        good = len(found.items)
        info = info._replace(size=good, weight=good * ranks / (info.end - info.start))
    try:
        batch = collate(found.items)
    except Exception:
        if found.items:
            raise
        batch = None
    return batch, info, found.holes


class _Sampler:
    """For DataLoader, which begins an epoch by asking for an iterator."""

    def __init__(self, reading: Reading):
        self._reading = reading

    def __len__(self) -> int:
        return self._reading.steps

    def __iter__(self) -> Iterator[Chosen]:
        yield from chosen(self._reading, self._reading.begin())


class _Steps(Dataset):
    """In a worker: from a step to its samples."""

    def __init__(self, data: Data, decode: Optional[Decode]):
        self._data, self._decode = data, decode

    def __getitems__(self, chosen: Chosen) -> tuple[Decoded, BatchInfo, int]:
        found = decoded(self._data, self._data.members[chosen.reading], chosen.step,
                        seeding(self._decode or plain))
        return found, chosen.step.info, self._data.ranks.size


class _Collate:
    """In a worker: the whole batch, so that tensors go through memory that is shared."""

    def __init__(self, collate: Collate):
        self._collate = collate

    def __call__(self, step: tuple[Decoded, BatchInfo, int]) -> tuple[Any, BatchInfo, list[int]]:
        found, info, ranks = step
        return collated(found, info, ranks, self._collate)
