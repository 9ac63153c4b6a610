"""Batches for PyTorch, through the node's reader."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from numbers import Integral
from typing import Any, Optional

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from horovod_opt.io.data import Data
from horovod_opt.io.decoder import Decode, DecodeBatch, GoodSamples, read_step, read_steps
from horovod_opt.io.errors import DataError, InputError, require_flags, tell
from horovod_opt.io.node_reader.steps import Pass
from horovod_opt.io.prefetcher import prefetch
from horovod_opt.io.progress import say
from horovod_opt.io.step_source import StepSource
from horovod_opt.io.torch.batch_builder import Batch, BatchBuilder, Collate
from horovod_opt.io.torch.batch_sampler import BatchNumbers, batch_numbers
from horovod_opt.io.torch.dataset import add_batch_seed, add_seed
from horovod_opt.io.torch.generators import OwnDraws
from horovod_opt.io.torch.pinning import Pinning

AHEAD = 2  # batches, by default
SMALL_BATCH = 1 << 20  # bytes whose copying costs less than another thread


class Loader:
    """This rank's batches of each epoch, decoded ahead of the training.

    Every rank makes one with the same arguments, and loops over it equally often: each loop is an
    epoch, and after `data.load_state_dict()` what is left of one. A loop that is left early, by
    `break` or an exception, is begun anew by the next; to go on in its epoch instead, call
    `data.load_state_dict(data.state_dict())` between the two, or give `epoch_batches`. `len()` is
    the number of batches of a whole loop, equal on all ranks.

    Random numbers: those of `sample.random`, and in decode those of the generators of Python, NumPy
    and PyTorch, follow from seed, epoch and position; the training's own are as if nothing had been
    decoded. Without workers, a decode that draws from these generators is called by the training's
    thread, and nothing is decoded ahead.

    A batch is what `collate` makes of the decoded samples (by default PyTorch's default_collate).
    With `with_info` it is (batch, info): a BatchInfo has weight, epoch and positions. Where a rank
    has no samples, as all are left out (bad="skip"), or fewer are left than ranks (last="mask"),
    the batch is that of nothing if `collate` can make one, else None, and the weight is 0.

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
        epochs: after so many loops the loader ends, and frees what it has.
        epoch_batches: a loop has so many batches instead of an epoch's, and the next one goes on
            behind the last batch that was taken, over the ends of the data's epochs.
        context: how workers start, such as "fork" or "forkserver"; by default as DataLoader's do.
        with_info: batches say which they are.
        pin_memory: batches are in pinned memory, from which `to(device, non_blocking=True)` copies
            without waiting; as PyTorch's DataLoader has it. Without a GPU: a warning.
    """

    def __init__(self, data: Data, batch_size: Optional[int] = None, *,
                 global_batch_size: Optional[int] = None, decode: Optional[Decode] = None,
                 decode_batch: Optional[DecodeBatch] = None, collate: Optional[Collate] = None,
                 workers: int = 0, threads: int = 1, prefetch: Optional[int] = None,
                 last: str = "spread", epochs: Optional[int] = None,
                 epoch_batches: Optional[int] = None, context: Optional[str] = None,
                 with_info: bool = False, pin_memory: bool = False):
        for name, value, least in (("workers", workers, 0), ("threads", threads, 1),
                                   ("prefetch", AHEAD if prefetch is None else prefetch,
                                    0)):
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise InputError(f"{name}={tell(value)}; remedy: a whole number of at least "
                                 f"{least}")
        require_flags(with_info=with_info, pin_memory=pin_memory)
        workers, threads = int(workers), int(threads)
        prefetch = None if prefetch is None else int(prefetch)
        if workers and prefetch == 0:
            raise InputError(f"prefetch=0 with workers={workers}; remedy: a whole number of at "
                             "least 1")
        if workers and threads > 1:
            raise InputError(f"workers={workers} and threads={threads}; remedy: one of them")
        if decode_batch is not None and (decode or collate or threads > 1):
            options = {"decode": decode, "collate": collate, "threads": threads}
            raise InputError(
                "decode_batch= makes the whole batch, and was given with "
                f"{', '.join(name for name, value in options.items() if value not in (None, 1))}; "
                "remedy: one or the other")
        self._data = data
        self._threads, self._with_info = threads, with_info
        self._pinning = Pinning() if pin_memory and not workers else None
        self._source = StepSource(data, batch_size, global_batch_size, last, epochs, epoch_batches)
        if prefetch is None:
            is_cheap = (not workers and not pin_memory and decode is decode_batch is collate is None
                        and self._batch_bytes() <= SMALL_BATCH)
            prefetch = 0 if is_cheap else AHEAD
        self._prefetch = prefetch
        if self._pinning is not None:
            collate = self._pinning.pinned(collate or self._pinning.collate)
            decode_batch = decode_batch and self._pinning.pinned(decode_batch)
        collate = collate or default_collate
        self._builder = BatchBuilder(data, decode, decode_batch, collate)
        self._draws = OwnDraws()
        self._seeded_builder = BatchBuilder(
            data, decode and self._draws.decode(decode),
            decode_batch and self._draws.decode_batch(decode_batch), collate)
        self._workers: Optional[DataLoader] = None
        self._source.when_closed(self._end_workers)
        if workers:
            worker_builder = BatchBuilder(data, decode and add_seed(decode),
                                          decode_batch and add_batch_seed(decode_batch), collate)
            self._new_workers = partial(
                DataLoader, _Steps(data, worker_builder), batch_sampler=_Sampler(self._source),
                num_workers=workers, collate_fn=_keep_batch, prefetch_factor=self._prefetch,
                persistent_workers=True, multiprocessing_context=context, pin_memory=pin_memory,
                worker_init_fn=_end_with_rank,
                generator=torch.Generator())  # the training's own is left as it is
            self._workers = self._new_workers()

    def __len__(self) -> int:
        return self._source.steps

    def _batch_bytes(self) -> float:
        """Of a rank's records, on average."""
        data = self._data
        all_ranks = data.index.size.sum() / len(data) * self._source.global_batch_size
        return all_ranks / data.shares.count

    def __iter__(self) -> Iterator[Any]:
        data, source = self._data, self._source
        has_workers = self._workers is not None
        if self._pinning is not None:
            self._pinning.begin()
        batches: Any = (self._by_workers(self._workers) if self._workers is not None
                        else self._by_threads())
        try:
            while True:
                start = time.monotonic_ns()
                with data.interruptible():
                    result = next(batches, None)
                source.stats.waited_since(start)
                if result is None:
                    source.end_pass()
                    return
                batch, info = result
                data.advance(info.epoch, info.end)
                source.stats.publish_now_and_then()
                yield (batch, info) if self._with_info else batch
        finally:
            if not source.is_closed:
                source.stats.publish()
            if not has_workers:
                batches.close()

    def close(self) -> None:
        """This rank takes nothing more; workers end. So it is at the end of its last epoch, and
        when nobody has the loader any more."""
        self._source.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_workers(self) -> None:
        self._workers = None  # PyTorch ends them when nobody has their DataLoader

    def _by_workers(self, workers: DataLoader) -> Iterator[Batch]:
        """A Ctrl-C, which they hear, too, has ended those of the loop before: then new ones."""
        if getattr(workers, "_iterator", None) is not None:
            try:
                return iter(workers)
            except DataError:
                raise
            except Exception:  # it has not come to the sampler: they did not answer
                workers = self._workers = self._new_workers()
        return iter(workers)

    def _by_threads(self) -> Generator[Batch, None, None]:
        """The first batch is built here, where the training's generators of random numbers can be
        put back; and so are all if its building draws from them."""
        steps, draws = self._read(self._source.begin()), self._draws
        first = None if self._builder.is_plain else next(steps, None)
        if first is not None:
            had_found = draws.found
            yield self._build_apart(first, looks=True)
            if draws.found and not had_found and self._data.node.is_reader:
                say("decode= draws random numbers from the generators of Python, NumPy or PyTorch, "
                    "which are the training's too, so its thread decodes, nothing ahead; remedy: "
                    "draw from sample.random, or decode in workers=")
        if first is not None and draws.found:
            yield from map(self._build_apart, steps)
            return
        results = self._build(steps)
        with closing(prefetch(results, self._prefetch) if self._prefetch else results) as ready:
            yield from ready

    def _build_apart(self, step: GoodSamples, looks: bool = False) -> Batch:
        with self._draws.apart(looks):
            return self._seeded_builder(step)

    def _read(self, begun: Pass) -> Iterator[GoodSamples]:
        member, is_plain = self._source.member, self._builder.is_plain
        for steps in self._source.step_groups(begun):
            yield from read_steps(self._data, member, steps, is_plain)

    def _build(self, steps: Iterator[GoodSamples]) -> Generator[Batch, None, None]:
        if self._threads == 1:
            yield from map(self._builder, steps)
            return
        pool = ThreadPoolExecutor(self._threads)
        coming: deque[Callable[[], Batch]] = deque()  # of which samples are being decoded
        step, failure = next(steps, None), None
        try:
            while step is not None or coming:
                if step is not None:
                    coming.append(self._builder.start(step, pool))
                    try:
                        step = next(steps, None)
                    except Exception as error:  # first comes what is before it
                        step, failure = None, error
                # Threads decode a batch while the one before is collated.
                if step is None or len(coming) > 1:
                    yield coming.popleft()()
            if failure is not None:
                raise failure
        finally:
            pool.shutdown(cancel_futures=True)


class _Sampler:
    """For DataLoader, which begins an epoch by asking for an iterator."""

    def __init__(self, source: StepSource):
        self._source = source

    def __len__(self) -> int:
        return self._source.steps

    def __iter__(self) -> Iterator[BatchNumbers]:
        yield from batch_numbers(self._source, self._source.begin())


class _Steps(Dataset):
    """In a worker: from a step to its batch."""

    def __init__(self, data: Data, builder: BatchBuilder):
        self._data, self._builder = data, builder

    def __getitems__(self, numbers: BatchNumbers) -> Batch:
        member = self._data.members[numbers.source]
        return self._builder(read_step(self._data, member, numbers.step, self._builder.is_plain))


def _end_with_rank(worker: int) -> None:
    """In a worker. PyTorch's looks whether it has another parent than at first: who was forked just
    as the rank died would live for ever, with the rank's connections, of which others would see no
    end."""
    rank = multiprocessing.parent_process()
    if rank is not None:
        threading.Thread(target=_follow, args=(rank,), name="hio-rank", daemon=True).start()


def _follow(rank: Any) -> None:
    rank.join()
    os._exit(1)


def _keep_batch(batch: Batch) -> Batch:
    return batch
