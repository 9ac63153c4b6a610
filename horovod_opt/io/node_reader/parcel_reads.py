"""What a node reads of epochs parcel by parcel, and where its ranks find their samples in that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Optional

import numpy as np

from horovod_opt.io.job.groups import Shares
from horovod_opt.io.memory_limit import show
from horovod_opt.io.node_reader.layout import Checks, Extents, Origins
from horovod_opt.io.node_reader.steps import Epoch, Located
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.parcels import Parcels
from horovod_opt.io.order.schedule import PIECE, Take, take_steps

if TYPE_CHECKING:
    from horovod_opt.io.kept.job_memory import JobMemory

# Of each rank: more are not read ahead, whatever memory there is.
AHEAD = 64


class ParcelLoads(NamedTuple):
    """Parcels that a node reads: the steps that need them and their marks, int64[k] each; parcel i
    has those of the `samples` (int64[n]) before ends[i], whose parts come to `places` (int64[n,
    P])."""

    chunk: np.ndarray
    first: np.ndarray
    last: np.ndarray
    ends: np.ndarray
    samples: np.ndarray
    places: np.ndarray


class ParcelRoom(NamedTuple):
    """Bytes that suffice in any epoch: for the largest parcel, and for what is needed at once."""

    largest: int
    at_once: int

    @classmethod
    def of(cls, index, cuts: Sequence[Batches], shares: Shares) -> ParcelRoom:
        """Of epochs that are cut like these. Whichever samples come together: no parcels are larger
        than those of the largest samples."""
        sizes = index.size.sum(axis=1)
        mean = sizes.sum() / len(sizes)
        largest = at_once = 0
        for batches in cuts:
            parcels = Parcels.of(batches, mean)
            one = max(parcels.most_samples((share,)) for share in shares.of_node)
            largest = max(largest, _largest(sizes, one))
            at_once = max(at_once, _largest(sizes, parcels.most_samples(shares.of_node)))
        return cls(largest, at_once)


class ParcelReads:
    """A parcel of each rank is in the node cache, and those that are read ahead. Load number
    `epoch.load` + p S + s is parcel p of the s-th of the node's S shares."""

    def __init__(self, index, shares: Shares):
        self._index, self._shares = index, shares
        self._sample_bytes = int(index.size.sum()) / len(index.offset)

    def pieces(self, epoch: Epoch) -> Iterator[ParcelLoads]:
        """For the node's reader."""
        batches, parcels = epoch.batches, self._parcels(epoch)
        begin = 0
        while begin < batches.steps:
            end = parcels.end_of(begin, PIECE)
            yield self._loads(epoch, parcels, begin, end)
            begin = end

    def add(self, epoch: Epoch) -> None:
        """The ranks of the node take it next: they find all by themselves."""

    def forget(self) -> None:
        """What was added is not needed any more."""

    def locate(self, epoch: Epoch, begin: int, behind: int, most: int) -> Located:
        """What this rank takes in steps of one size from `begin` on, before `behind`: about `most`
        samples."""
        batches, parcels, shares = epoch.batches, self._parcels(epoch), self._shares
        first = parcels.begin_of(begin)
        end = parcels.end_of(first, min(most * batches.ranks, PIECE))
        take = self._take(epoch, first, end, shares.own)
        found = parcels.places(first, end, take.samples, self._index.size[take.samples])
        stride, own = len(shares.of_node), shares.of_node.index(shares.own)
        load = epoch.load + (parcels.number_of(first) + found.number) * stride + own
        per_step = len(take.samples) // (end - first)
        part = slice((begin - first) * per_step, (min(end, behind) - first) * per_step)
        return Located(min(end, behind), Take(take.positions[part], take.samples[part]),
                       load[part], found.place[part], found.mark[part])

    def _loads(self, epoch: Epoch, parcels: Parcels, begin: int, end: int) -> ParcelLoads:
        firsts = parcels.begins(begin, end)
        lasts = np.append(firsts[1:], end) - 1
        of_node = self._shares.of_node
        marks = np.zeros((len(firsts), len(of_node)), np.int64)
        rows = []
        for number, share in enumerate(of_node):
            samples = self._take(epoch, begin, end, share).samples
            found = parcels.places(begin, end, samples, self._index.size[samples])
            marks[found.number, number] = found.mark
            rows.append((found.number * len(of_node) + number, samples, found.place))
        load, samples, places = map(np.concatenate, zip(*rows))
        sequence = np.lexsort((samples, load))
        return ParcelLoads(
            marks.ravel(), np.repeat(firsts + epoch.base, len(of_node)),
            np.repeat(lasts + epoch.base, len(of_node)),
            np.cumsum(np.bincount(load, minlength=marks.size)),
            samples[sequence], places[sequence])

    def _take(self, epoch: Epoch, begin: int, end: int, share: int) -> Take:
        return take_steps(epoch.order, epoch.batches, epoch.epoch, begin, end, self._shares.dealt,
                          share)

    def _parcels(self, epoch: Epoch) -> Parcels:
        return Parcels.of(epoch.batches, self._sample_bytes)


def describe(index, loads: ParcelLoads, part: slice, job_memory: Optional[JobMemory]
             ) -> tuple[Extents, Optional[Checks], Optional[Origins]]:
    """Of some of these parcels, whose extents are the records: in files, and with `job_memory` what
    it needs to know of them."""
    begin = int(loads.ends[part.start - 1]) if part.start else 0
    edges = np.append(begin, loads.ends[part]) - begin
    rows = slice(begin, begin + int(edges[-1]))
    samples = loads.samples[rows]
    size = index.size[samples]
    is_there = size > 0  # nothing is nowhere
    length, place = size[is_there], loads.places[rows][is_there]
    extents = Extents(
        begin=np.append(0, np.cumsum(is_there.sum(axis=1)))[edges],
        file=np.ascontiguousarray(index.file[samples][is_there], np.int32),
        offset=np.ascontiguousarray(index.offset[samples][is_there], np.int64), length=length,
        place=place, bytes=np.diff(np.append(0, np.cumsum(size.sum(axis=1)))[edges]))
    if job_memory is None:
        return extents, None, None
    crc = None if index.crc is None else np.ascontiguousarray(index.crc[samples][is_there])
    return (extents, Checks(np.zeros(len(edges) - 1, np.uint8), extents.begin, place, length, crc),
            Origins(*(column[is_there] for column in job_memory.origins_of(samples))))


def describe_small_reads(index, chunk_samples: int, is_kept: Optional[np.ndarray]) -> str:
    """What is to be said of samples that no node keeps, as `is_kept` (bool[chunks], None: none is)
    says of their chunks; "" for nothing."""
    samples = len(index.offset)
    alone = np.arange(samples) if is_kept is None else np.flatnonzero(
        ~is_kept[np.arange(samples) // chunk_samples])
    reads = int((index.size[alone] > 0).sum())
    if not reads:
        return ""
    return (f"order='ordered': no node keeps {len(alone)} of {samples} samples, so each epoch has "
            f"{reads} reads of {show(int(index.size[alone].sum()) // reads)} on average; remedy: "
            "more cache= (horovod-opt io order says how much keeps all), or order='window'")


def _largest(sizes: np.ndarray, count: int) -> int:
    """Bytes of so many of the largest samples."""
    count = min(count, len(sizes))
    return int(np.partition(sizes, len(sizes) - count)[len(sizes) - count:].sum()) if count else 0
