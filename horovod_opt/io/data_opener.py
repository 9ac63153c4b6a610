"""`open`: finds the data, its index and its order, the same on all ranks or on none."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Optional, Union

import numpy as np

from horovod_opt.io import formats, memory_limit
from horovod_opt.io.data import (
    BAD,
    BAD_LIMIT,
    DEALS,
    JOB,
    NODE,
    ORDERED,
    ORDERS,
    WINDOW,
    Data,
)
from horovod_opt.io.errors import InputError, require_flags, require_one_of, tell
from horovod_opt.io.formats import FOLDER, Pattern
from horovod_opt.io.index import Index, Selection
from horovod_opt.io.index.selection import Choose
from horovod_opt.io.index.weights import Weigh
from horovod_opt.io.job import nodes, room
from horovod_opt.io.job.agreement import require_equal, run_together
from horovod_opt.io.job.communication import ALONE, Communication, find
from horovod_opt.io.job.groups import Groups
from horovod_opt.io.job.job_index import open_index
from horovod_opt.io.kept.kept_place import KeptPlace, check_kept_place
from horovod_opt.io.node_reader.layout import estimate_chunk_bytes
from horovod_opt.io.order import choice
from horovod_opt.io.order.choice import DataSize, Given
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.rank_view import weakness
from horovod_opt.io.progress import say
from horovod_opt.io.stage.data_cache import stage_together
from horovod_opt.io.unpacked.unpacked_place import UnpackedPlace, check_unpacked_place


def open(pattern: Union[Pattern, Mapping[str, float]], *, seed: int = 0, shuffle: bool = True,
         memory: Union[int, str, None] = None, window: Optional[int] = None,
         shards: Optional[int] = None, chunk_samples: Optional[int] = None, bad: str = "raise",
         index: Union[str, os.PathLike, None] = None, checksums: bool = True, threads: int = 4,
         alone: bool = False, elastic: bool = False,
         ranks: Optional[Communication] = None, bad_limit: float = BAD_LIMIT,
         parts: Union[str, Sequence[str], None] = None, lacking: str = "raise",
         choose: Optional[Choose] = None,
         groups: Optional[Sequence[Sequence[int]]] = None,
         stage_in: Union[str, os.PathLike, None] = None,
         stage_limit: Union[int, str, None] = None,
         cache: Union[int, str, None] = None,
         cache_in: Union[str, os.PathLike, None] = None,
         unpack_in: Union[str, os.PathLike, None] = None,
         weights: Optional[Weigh] = None, deal: str = NODE, order: str = WINDOW) -> Data:
    """Opens a data set on all ranks; every rank calls it with the same arguments.

    Ranks are those of Horovod or torch.distributed, whichever is initialized, or this process.

    Args:
        pattern: a path or glob, or several: TFRecord files, tars (WebDataset's layout), an LMDB, or
            a folder of files, whose subfolders are classes. To mix data sets of one format, a dict
            of a path or glob for each and its share of an epoch's samples.
        seed: of the order; the same for the same samples at the same positions.
        shuffle: False for the data's own order, as for validation.
        memory: of a node's reader, such as "2GiB"; by default what window and shards need and a
            quarter more.
        window, shards, chunk_samples: of the order, see docs/use/io.md; by default by the data's
            size and `memory`, and at a resume what the state has.
        bad: what becomes of a damaged record: "raise" an error, or "skip" it. Damaged is what has
            another checksum, is truncated, or is an error of the disk; whatever else keeps a record
            from being read is an error of all ranks of the node. Of a truncated file "skip" takes
            the samples before that. Both leave out samples of which decode raises `Skip`;
            "skip-all" those of which it raises anything.
        index: a file to keep the index in, instead of beside the data or in the user's cache.
        checksums: False: an index that has to be built is built without reading all data once.
        threads: of the node's reader.
        alone: True: only this rank opens it, and reads all of it: an evaluation on rank 0.
        elastic: True: this rank opens it without the others, of which some may be in the middle of
            the training; they compare what they have when a loader is made. For hio.elastic.
        ranks: those of another launcher, such as mpi4py's: how they meet.
        bad_limit: unless bad="raise", the part of the samples of an epoch that may be left out on a
            node; more end the job. Ten may always be.
        parts: of tars, which parts samples have, in this order, such as ("jpg", "cls"); by default
            all.
        lacking: what becomes of samples of tars that lack a part: "raise" an error, "skip" them, or
            "keep" them, without it.
        choose: which samples: patterns of their keys such as "*.jpg", or "!*/Thumbs.db" for those
            that are left out; or a function that is given a `SampleTable` and returns bool[n], or
            numbers of samples.
        weights: a function that is given a `SampleTable` of the chosen samples and returns a weight
            for each: an epoch then has each of them in proportion, at least once unless weights
            differ too much, or not at all where they are 0.
        groups: of ranks that have the same samples, such as [[0, 1], [2, 3]]; a batch is then one
            of each group, and `global_batch_size` that of all groups.
        stage_in: a folder of the node, to which the data is brought first, from wherever it is: a
            URL (https://, s3://, ...), a path or a glob of other storage. docs/use/io-files.md
        stage_limit: what all that is staged there may have, such as "200GiB".
        cache: bytes of each node, such as "24GiB", that keep what was read, for all nodes of the
            job: docs/use/io-cache.md. It changes no order. None: nothing is kept.
        cache_in: a folder on a disk of each node that they are in, instead of memory.
        unpack_in: a folder on a disk of each node that compressed files are unpacked in, instead of
            memory. Nothing in it has a name.
        deal: to whose ranks the samples of a step are dealt: those of each "node", which reads
            few files, or those of the whole "job", so that each sees of all files. For data that is
            kept, by `cache=`: docs/use/io-cache.md
        order: "window", or "ordered": all samples are permuted together and dealt to the whole job,
            and read one by one. For data that is kept, too.

    Raises:
        InputError: an argument cannot be used, or differs between ranks.
        DataError: the data or its index cannot be used; on every rank, whichever it is that cannot.
    """
    if _is_script_run_again():
        raise InputError("a process that the script has started opens the data, as it runs the "
                         "script again (multiprocessing's spawn or forkserver); remedy: what "
                         "trains below `if __name__ == '__main__':`")
    require_flags(shuffle=shuffle, checksums=checksums, alone=alone, elastic=elastic)
    if ranks is not None and (alone or elastic):
        raise InputError(f"{'alone' if alone else 'elastic'}=True with ranks: nobody would meet; "
                         "remedy: leave one of them out")
    if ranks is None:
        ranks = ALONE if alone or elastic else find()
    shares: Optional[Mapping[str, float]] = None
    if isinstance(pattern, Mapping):
        shares = pattern
        if stage_in is not None:
            raise InputError("stage_in= with a share of each data set; remedy: bring each there by "
                             "horovod-opt io stage, and open what it has made")
        pattern = list(shares)
    files: Pattern = pattern
    if not shuffle and (weights is not None or shares is not None):
        raise InputError("shuffle=False with weights, where samples come in the data's own order, "
                         "once; remedy: leave one of them out")
    require_one_of("order", order, ORDERS)
    seed, window, shards, chunk_samples, threads = map(
        _as_plain, (seed, window, shards, chunk_samples, threads))
    is_ordered = order == ORDERED
    if is_ordered and not (shuffle and window is None and shards is None):
        raise InputError(f"order='ordered' with shuffle={shuffle}, window={window}, "
                         f"shards={shards}, though all samples are permuted together; remedy: "
                         "leave these out, or order=")
    own_ranks, ranks = ranks, ranks.doing(f"opens {tell(files)}")

    if stage_in is not None or stage_limit is not None:
        files = stage_together(ranks, files, stage_in, stage_limit)

    def check() -> tuple[Optional[int], tuple[str, ...], Selection, Groups, Optional[KeptPlace]]:
        require_one_of("bad", bad, BAD)
        require_one_of("deal", deal, DEALS)
        if not isinstance(bad_limit, (int, float)) or not 0 <= bad_limit <= 1:
            raise InputError(f"bad_limit={tell(bad_limit)}; remedy: a part of the samples, 0 to 1")
        if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= 256:
            raise InputError(f"threads={tell(threads)}; remedy: a whole number from 1 to 256")
        return (None if memory is None else memory_limit.parse(memory), formats.absolute(files),
                Selection.check(parts, lacking, choose, weights, shares),
                Groups.check(groups, ranks.size)._replace(
                    deals_job=is_ordered or deal == JOB and shuffle),
                check_kept_place(cache, cache_in))

    if groups is not None and (alone or elastic):
        raise InputError(f"{'alone' if alone else 'elastic'}=True with groups={tell(groups)}, "
                         "where ranks do not know each other; remedy: leave one of them out")
    memory_bytes, patterns, selection, rank_groups, kept_place = run_together(ranks, check)
    require_equal(ranks, {"pattern": patterns, "seed": seed, "shuffle": shuffle,
                          "memory": memory_bytes, "window": window, "shards": shards,
                          "chunk_samples": chunk_samples, "bad": bad, "bad_limit": bad_limit,
                          "parts": selection.parts, "lacking": lacking,
                          "shares": selection.shares,
                          "groups": rank_groups.share_of_rank, "deal": deal, "order": order,
                          "cache": kept_place and kept_place.bytes,
                          "cache_in": kept_place and kept_place.folder,
                          "unpack_in": unpack_in and os.fspath(unpack_in)},
                  "call open() with the same arguments on every rank")
    node = nodes.find(ranks)
    whole = open_index(ranks, node, files, index, checksums, keep_truncated=bad != "raise")
    if whole.truncated and ranks.rank == 0:
        say(f"{len(whole.truncated)} files end too early, and what is behind is left out: "
            f"{whole.truncations[0]}")
    data_index = run_together(ranks, lambda: selection.apply(whole, seed))
    require_equal(ranks, {"the samples of choose= and weights=": data_index.digest.hex()},
                  "choose= and weights= have to say the same of all samples on every rank")
    rare = getattr(data_index, "rare", 0)
    if rare and ranks.rank == 0:
        say(f"{rare} samples have so little weight that they come less than once in an epoch of "
            f"{data_index.samples}: some of them are in all epochs, by the seed, the others in "
            "none; remedy: weights that differ less")

    unpacked = run_together(ranks, lambda: _check_unpacked(
        data_index, unpack_in, memory_bytes, kept_place))

    of_rank = rank_groups.shares(ranks.size, ranks.rank, node.ranks)
    order_room = room.find(ranks, node._replace(ranks=of_rank.of_node), memory_bytes)
    order_room = order_room.without(unpacked.memory)
    rank_groups = rank_groups._replace(are_apart=order_room.are_apart)
    if rank_groups.deals_job:  # each node holds what all ranks take of
        order_room = order_room._replace(nodes=(tuple(range(of_rank.count)),))
    size = DataSize(data_index.samples, int(data_index.size.sum()), data_index.format == FOLDER,
                    partial(estimate_chunk_bytes, data_index))

    def choose_order(given: Given) -> Order:
        choices = choice.choose(size, given, order_room, seed, data_index.digest, shuffle)
        if choices.note and ranks.rank == 0:
            say(choices.note)
        return choices.order

    given = Given(chunk_samples, shards, window)
    if is_ordered:
        chosen = run_together(ranks, lambda: choice.one_window(
            size, chunk_samples, seed, data_index.digest))
        given = Given(chunk_samples, chosen.shards)
    else:
        chosen = run_together(ranks, lambda: choose_order(given))
    if ranks.rank == 0 and data_index.label is not None:
        weak = weakness(chosen, order_room.nodes, data_index.label)
        if weak:
            say(weak)
    return Data(data_index, chosen, own_ranks, node, memory_bytes, bad, threads, elastic, bad_limit,
                given, choose_order, rank_groups, kept_place, unpacked, is_ordered)


def _as_plain(number: Any) -> Any:
    """NumPy's have bounds within which an order is not computed."""
    return int(number) if isinstance(number, np.integer) else number


def _check_unpacked(index: Index, folder: Union[str, os.PathLike, None], memory: Optional[int],
                    kept_place: Optional[KeptPlace]) -> UnpackedPlace:
    if index.unpacked is not None and kept_place is not None:
        raise InputError(f"cache={memory_limit.show(kept_place.bytes)} for compressed files, which "
                         "each node unpacks and keeps anyway; remedy: leave cache= out")
    return check_unpacked_place(index, folder, memory)


def _is_script_run_again() -> bool:
    """Whether multiprocessing does so now, to know the names in it, as module __mp_main__."""
    script = sys.modules.get("__mp_main__")
    return (getattr(multiprocessing.current_process(), "_inheriting", False)
            and script is not None and script is not sys.modules.get("__main__"))
