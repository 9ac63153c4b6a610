"""`open`: finds the data, its index and its order, the same on all ranks or on none."""

from __future__ import annotations

import os
from functools import partial
from typing import Optional, Union

from horovod_opt.io import formats, memory_limit
from horovod_opt.io import index as indexes
from horovod_opt.io.data import BAD, Data
from horovod_opt.io.errors import InputError
from horovod_opt.io.formats import FOLDER, Pattern
from horovod_opt.io.index import Index
from horovod_opt.io.job import nodes, room
from horovod_opt.io.job.agreement import require_agreement, require_equal, run_together
from horovod_opt.io.job.communication import ALONE, Communication, find
from horovod_opt.io.native import crc32c
from horovod_opt.io.node_reader.layout import estimate_chunk_bytes
from horovod_opt.io.order.choice import DataSize, Given, choose
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.rank_view import weakness
from horovod_opt.io.progress import ProgressLog, say

AT_ONCE = 1 << 20  # samples whose checksums are looked at together


def open(pattern: Pattern, *, seed: int = 0, shuffle: bool = True,
         memory: Union[int, str, None] = None, window: Optional[int] = None,
         shards: Optional[int] = None, chunk_samples: Optional[int] = None, bad: str = "raise",
         index: Union[str, os.PathLike, None] = None, checksums: bool = True, threads: int = 4,
         alone: bool = False, elastic: bool = False,
         ranks: Optional[Communication] = None) -> Data:
    """Opens a data set on all ranks; every rank calls it with the same arguments.

    Ranks are those of Horovod or torch.distributed, whichever is initialized, or this process.

    Args:
        pattern: a path or glob, or several: TFRecord files, tars (WebDataset's layout), an LMDB, or
            a folder of files, whose subfolders are classes.
        seed: of the order; the same for the same samples at the same positions.
        shuffle: False for the data's own order, as for validation.
        memory: of a node's reader, such as "2GiB"; by default what window and shards need and a
            quarter more.
        window, shards, chunk_samples: of the order, see docs/use/io.md; by default by the data's
            size and `memory`, and at a resume what the state has.
        bad: what becomes of a damaged record: "raise" an error, or "skip" it.
        index: a file to keep the index in, instead of beside the data or in the user's cache.
        checksums: False: an index that has to be built is built without reading all data once.
        threads: of the node's reader.
        alone: True: only this rank opens it, and reads all of it: an evaluation on rank 0.
        elastic: True: this rank opens it without the others, of which some may be in the middle of
            the training; they compare what they have when a loader is made. For hio.elastic.
        ranks: those of another launcher, such as mpi4py's: how they meet.

    Raises:
        InputError: an argument cannot be used, or differs between ranks.
        DataError: the data or its index cannot be used; on every rank, whichever it is that cannot.
    """
    if ranks is not None and (alone or elastic):
        raise InputError(f"{'alone' if alone else 'elastic'}=True with ranks: nobody would meet; "
                         "remedy: leave one of them out")
    if ranks is None:
        ranks = ALONE if alone or elastic else find()

    def check() -> tuple[Optional[int], tuple[str, ...]]:
        if bad not in BAD:
            raise InputError(f"bad={bad!r}; remedy: one of {', '.join(BAD)}")
        if not isinstance(threads, int) or not 1 <= threads <= 256:
            raise InputError(f"threads={threads!r}; remedy: a whole number from 1 to 256")
        return (None if memory is None else memory_limit.parse(memory), formats.absolute(pattern))

    memory_bytes, patterns = run_together(ranks, check)
    require_equal(ranks, {"pattern": patterns, "seed": seed, "shuffle": shuffle,
                          "memory": memory_bytes, "window": window, "shards": shards,
                          "chunk_samples": chunk_samples, "bad": bad},
                  "call open() with the same arguments on every rank")
    node = nodes.find(ranks)
    data_index = _index(ranks, node, pattern, index, checksums)

    order_room = room.find(ranks, node, memory_bytes)
    size = DataSize(data_index.samples, int(data_index.size.sum()), data_index.format == FOLDER,
                    partial(estimate_chunk_bytes, data_index))

    def choose_order(given: Given) -> Order:
        choice = choose(size, given, order_room, seed, data_index.digest, shuffle)
        if choice.note and ranks.rank == 0:
            say(choice.note)
        return choice.order

    given = Given(chunk_samples, shards, window)
    order = run_together(ranks, lambda: choose_order(given))
    if ranks.rank == 0 and data_index.label is not None:
        weak = weakness(order, order_room.nodes, data_index.label)
        if weak:
            say(weak)
    return Data(data_index, order, ranks, node, memory_bytes, bad, threads, is_elastic=elastic,
                given=given, choose=choose_order)


def _index(ranks: Communication, node: nodes.Node, pattern: Pattern,
           place: Union[str, os.PathLike, None], checksums: bool) -> Index:
    """Rank 0 looks for it first, and builds it if it must; then one rank of each other node, which
    compares its own view of the files; then all others."""

    def load_or_build() -> Index:
        try:
            index = indexes.load(pattern, place)
            if index.crc is not None or not checksums:
                return index
        except indexes.Missing:
            say(f"no index of {pattern} yet: it is built now, once")
        except (indexes.Stale, indexes.Damaged) as refusal:
            say(f"{refusal}: it is built anew")
        return indexes.build(pattern, checksums, ProgressLog("indexed"), place)

    def take_stage(stage: int) -> Optional[Index]:
        own_stage = 0 if ranks.rank == 0 else 1 if node.is_reader else 2
        if stage != own_stage:
            return None
        return load_or_build() if node.is_reader else indexes.load(pattern, place, check=False)

    result = None
    for stage in range(1 if ranks.size == 1 else 3):
        result = run_together(ranks, lambda: take_stage(stage)) or result
    require_equal(ranks, {"data": f"{result.samples} samples in {len(result.files)} files of "
                          f"{int(result.files.sizes.sum())} bytes, identity {result.digest.hex()}"},
                  "give every node the same files: names, sizes and numbers of samples must agree")
    if len(node.ranks) < ranks.size:  # several nodes, each with files that it may have alone
        require_agreement(ranks, "contents", _contents(result) if node.is_reader else None,
                                  "give every node the same files: their checksums must agree")
    return result


def _contents(index: Index) -> Optional[str]:
    """A checksum of all checksums; None without any."""
    if index.crc is None:
        return None
    whole = 0
    for first in range(0, index.samples, AT_ONCE):
        whole = crc32c(index.crc[first:first + AT_ONCE].tobytes(), whole)
    return f"{whole:08x}"
