"""Batches for PyTorch, through the node's reader."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

from torch.utils.data import DataLoader, Dataset, default_collate

from horovod_opt.io.batch import with_info
from horovod_opt.io.data import Data
from horovod_opt.io.decoding import Decode, DecodeBatch, found, found_in
from horovod_opt.io.errors import InputError
from horovod_opt.io.prefetching import prefetched
from horovod_opt.io.reading import Epoch, Reading
from horovod_opt.io.torch.batch_sampler import Chosen, chosen
from horovod_opt.io.torch.dataset import seeding, seeding_batch
from horovod_opt.io.torch.making import Collate, Made, Making

AHEAD = 2  # batches, by default
SMALL_BATCH = 1 << 20  # bytes whose copying costs less than another thread


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
        decode: takes a `Sample`; without, a sample is as SampleBatch.plain() has it.
        workers: processes that decode; 0: threads of this one do.
        threads: that decode, without workers; for functions that do not hold Python's lock.
        decode_batch: takes all samples of the batch at once, a `SampleBatch`, and returns the
            batch; instead of decode, collate and threads. The fastest way for small records.
        prefetch: batches that are ready before they are asked for, made by a thread, or by each
            worker. 0: they are made when they are asked for, which costs least where that is no
            more than copying. By default 2; 0 without workers, decode, decode_batch and collate
            where a batch has at most 1 MiB.
        last: of the remainder of an epoch: "spread", "drop" or "mask".
        epochs: after so many nothing is read ahead.
        context: how workers start, such as "fork" or "forkserver"; by default as DataLoader's do.
    """

    def __init__(self, data: Data, batch_size: Optional[int] = None, *,
                 global_batch_size: Optional[int] = None, decode: Optional[Decode] = None,
                 decode_batch: Optional[DecodeBatch] = None, collate: Optional[Collate] = None,
                 workers: int = 0, threads: int = 1, prefetch: Optional[int] = None,
                 last: str = "spread", epochs: Optional[int] = None,
                 context: Optional[str] = None):
        for name, value, least in (("workers", workers, 0), ("threads", threads, 1),
                                   ("prefetch", AHEAD if prefetch is None else prefetch,
                                    1 if workers else 0)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"{name}={value!r}; remedy: a whole number of at least {least}")
        if workers and threads > 1:
            raise InputError(f"workers={workers} and threads={threads}; remedy: one of them")
        if decode_batch is not None and (decode or collate or threads > 1):
            others = {"decode": decode, "collate": collate, "threads": threads}
            raise InputError(
                "decode_batch= makes the whole batch, and was given with "
                f"{', '.join(name for name, value in others.items() if value not in (None, 1))}; "
                "remedy: one or the other")
        self._data = data
        self._threads = threads
        self._reading = Reading(data, batch_size, global_batch_size, last, epochs)
        if prefetch is None:
            is_cheap = (not workers and decode is decode_batch is collate is None
                        and self._batch_bytes() <= SMALL_BATCH)
            prefetch = 0 if is_cheap else AHEAD
        self._prefetch = prefetch
        collate = collate or default_collate
        self._making = Making(data, decode, decode_batch, collate)
        self._loader = None
        if workers:
            in_worker = Making(data, decode and seeding(decode),
                               decode_batch and seeding_batch(decode_batch), collate)
            self._loader = DataLoader(
                _Steps(data, in_worker), batch_sampler=_Sampler(self._reading), num_workers=workers,
                collate_fn=_as_it_is, prefetch_factor=self._prefetch,
                persistent_workers=True, multiprocessing_context=context)

    def __len__(self) -> int:
        return self._reading.steps

    def _batch_bytes(self) -> float:
        """Of a rank's records, on average."""
        data = self._data
        all_ranks = data.index.size.sum() / len(data) * self._reading.global_batch_size
        return all_ranks / data.ranks.size

    def __iter__(self) -> Iterator[Any]:
        data, reading = self._data, self._reading
        batches = self._by_threads() if self._loader is None else iter(self._loader)
        try:
            while True:
                start = time.perf_counter()
                with data.interruptible():
                    made = next(batches, None)
                reading.training_waited += time.perf_counter() - start
                if made is None:
                    return
                batch, info, holes = made
                if holes:
                    data.holes.setdefault(info.epoch, []).extend(holes)
                data.advance(info.epoch, info.end)
                reading.publish_now_and_then()
                yield with_info(batch, info)
        finally:
            reading.publish()
            if self._loader is None:
                batches.close()

    def _by_threads(self) -> Iterator[Made]:
        epoch = self._reading.begin()
        made = self._made(epoch)
        return prefetched(made, self._prefetch) if self._prefetch else made

    def _made(self, epoch: Epoch) -> Iterator[Made]:
        pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None
        try:
            for steps in self._reading.steps_together(epoch):
                for one in found(self._data, self._reading.member, steps, self._making.is_plain):
                    yield self._making(one, pool)
        finally:
            if pool is not None:
                pool.shutdown(cancel_futures=True)


class _Sampler:
    """For DataLoader, which begins an epoch by asking for an iterator."""

    def __init__(self, reading: Reading):
        self._reading = reading

    def __len__(self) -> int:
        return self._reading.steps

    def __iter__(self) -> Iterator[Chosen]:
        yield from chosen(self._reading, self._reading.begin())


class _Steps(Dataset):
    """In a worker: from a step to its batch."""

    def __init__(self, data: Data, making: Making):
        self._data, self._making = data, making

    def __getitems__(self, chosen: Chosen) -> Made:
        member = self._data.members[chosen.reading]
        return self._making(found_in(self._data, member, chosen.step, self._making.is_plain))


def _as_it_is(made: Made) -> Made:
    return made
