"""The index that all ranks of a job load: the leader of each node says which."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from typing import Optional, Union

import numpy as np

from horovod_opt.io import index as indexes
from horovod_opt.io.formats import Pattern
from horovod_opt.io.index import Fingerprint, Index
from horovod_opt.io.job.agreement import (
    Abandoned,
    require_agreement,
    require_equal,
    run_together,
)
from horovod_opt.io.job.communication import Communication
from horovod_opt.io.job.nodes import Node
from horovod_opt.io.memory_limit import show
from horovod_opt.io.native import crc32c
from horovod_opt.io.progress import ProgressLog, say

AT_ONCE = 1 << 20  # samples that are looked at together


def open_index(ranks: Communication, node: Node, pattern: Pattern,
               place: Union[str, os.PathLike, None], checksums: bool,
               keep_truncated: bool = False) -> Index:
    """Collective. Rank 0 looks for it first, and builds it if it must; then one rank of each other
    node, which compares its own view of the files. The others of a node read the very one that
    their first rank has: of several that are kept, the next one may be of other files."""
    leader_index: Optional[Fingerprint] = None  # of the node, or rank 0's for those of other nodes

    def take_stage(stage: int) -> Optional[Index]:
        own_stage = 0 if ranks.rank == 0 else 1 if node.is_reader else 2
        if stage != own_stage:
            return None
        if not node.is_reader:
            return indexes.load_same(pattern, leader_index, place)
        if leader_index is not None:
            with suppress(indexes.Missing):
                return indexes.load_same(pattern, leader_index, place, check=True)
        return load_or_build(pattern, place, checksums, is_over, keep_truncated)

    result, is_over = None, threading.Event()
    for stage in range(1 if ranks.size == 1 else 3):
        result = run_together(ranks, lambda: take_stage(stage), is_over) or result
        if ranks.size > 1 and stage < 2:
            leader_index = _fingerprints(ranks, result)[0 if stage == 0 else node.ranks[0]]
    require_equal(ranks, {"data": f"{result.samples} samples in {len(result.files)} files of "
                          f"{int(result.files.sizes.sum())} bytes, identity {result.digest.hex()}"},
                  "give every node the same files: names, sizes and numbers of samples must agree")
    if len(node.ranks) < ranks.size:  # several nodes, each with files that it may have alone
        for name, hash_of in (("places of records", _places), ("contents", _contents)):
            require_agreement(ranks, name, hash_of(result) if node.is_reader else None,
                              "give every node the same files: their checksums must agree")
    return result


def take_leaders(ranks: Communication, node: Node, index: Index) -> Index:
    """Collective: of ranks that have opened theirs by themselves, those of a node go on with that
    of its first rank."""
    leader = _fingerprints(ranks, index.whole)[node.ranks[0]]
    return run_together(ranks, lambda: index if leader.fingerprint == index.whole.fingerprint else
                        index.of(indexes.read_same(leader, index.root)))


def _fingerprints(ranks: Communication, index: Optional[Index]) -> list[Fingerprint]:
    """By rank; of those that have none yet, too."""
    own = ("", "") if index is None else (index.place, index.fingerprint)
    return [Fingerprint(*json.loads(text)) for text in ranks.allgather(json.dumps(own).encode())]


def load_or_build(pattern: Pattern, place: Union[str, os.PathLike, None], checksums: bool,
                  is_over: threading.Event, keep_truncated: bool = False) -> Index:
    """The index that is kept, or a new one; what takes long, and why, is said. Raises Abandoned
    once `is_over` is set."""
    log = ProgressLog("indexed")

    def progress(done: int, total: int) -> None:
        if is_over.is_set():
            raise Abandoned("another rank has failed")
        log(done, total)

    try:
        index = indexes.load(pattern, place, checksums=checksums)
        if index.crc is not None or not checksums:
            return indexes.refuse_truncated(index, keep_truncated)
        say(f"{index.place} has no checksums: {show(int(index.size.sum()))} are read for them now, "
            "once; checksums=False goes without")
    except indexes.Missing:
        reads = ("without reading all data" if not checksums else
                 "and all data read, for its checksums; checksums=False goes without")
        say(f"no index of {pattern} yet: it is built now, once, {reads}")
    except (indexes.Stale, indexes.Damaged) as refusal:
        say(f"{refusal}: it is built anew")
    return indexes.build(pattern, checksums, progress, place, keep_truncated)


def _places(index: Index) -> str:
    """A checksum of where all records are, and how long."""
    whole = 0
    for column in (index.offset, index.size):
        for first in range(0, index.samples, AT_ONCE):
            whole = crc32c(np.ascontiguousarray(column[first:first + AT_ONCE]).tobytes(), whole)
    return f"{whole:08x}"


def _contents(index: Index) -> Optional[str]:
    """A checksum of all checksums; None without any."""
    if index.crc is None:
        return None
    whole = 0
    for first in range(0, index.samples, AT_ONCE):
        whole = crc32c(index.crc[first:first + AT_ONCE].tobytes(), whole)
    return f"{whole:08x}"
