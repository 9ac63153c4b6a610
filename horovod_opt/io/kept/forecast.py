"""What the job's memory saves, before there is one: which bytes come from storage, and which go
between nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from horovod_opt.io.kept.homes import NOWHERE, NodeHoldings, find_homes, pages
from horovod_opt.io.node_reader.layout import bytes_read, samples_of
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.schedule import Loads, next_piece, schedule_in_pieces, take_steps


class EpochTraffic(NamedTuple):
    """Bytes of all nodes in one epoch."""

    storage: int
    network: int


class CacheForecast(NamedTuple):
    """`kept`: bytes that all nodes keep; what is read in the first epoch, and in the one behind it,
    as in each that follows."""

    kept: int
    first: EpochTraffic
    later: EpochTraffic


def enough_to_keep_all(chunk_bytes: np.ndarray, nodes: int) -> int:
    """Bytes of each of so many nodes; homes are whole chunks."""
    sizes = pages(chunk_bytes)
    return int(-(-sizes.sum() // nodes) + (sizes.max(initial=0) if nodes > 1 else 0))


def bytes_sent(index, chunk_samples: int, loads: Loads, chunk_bytes: np.ndarray) -> np.ndarray:
    """What comes from another node's memory for each of these loads, int64[k]: its samples, and
    little between them."""
    if loads.mask is None:
        return chunk_bytes[loads.chunk]
    samples, group = samples_of(loads.chunk, chunk_samples, len(index.offset))
    return np.bincount(group, index.size[samples].sum(axis=1) * loads.mask,
                       len(loads.chunk)).astype(np.int64)


def foresee_parcels(order: Order, batches: Batches, epoch: int, nodes: Sequence[Sequence[int]],
                    room: int, index, chunk_bytes: np.ndarray) -> CacheForecast:
    """The same where samples are dealt to the whole job, and nodes read nothing but what their
    ranks take, and what they keep."""
    homes = find_homes(order, epoch, chunk_bytes, _nothing_held(order, nodes, room))
    sizes = index.size.sum(axis=1)

    def traffic(of_epoch: int, storage: int) -> EpochTraffic:
        network = 0
        for number, ranks in enumerate(nodes):
            begin = 0
            while begin < batches.steps:
                end = next_piece(batches, begin)
                for rank in ranks:
                    samples = take_steps(order, batches, of_epoch, begin, end,
                                         range(batches.ranks), rank).samples
                    home = homes[samples // order.chunk_samples]
                    storage += int(sizes[samples[home == NOWHERE]].sum())
                    network += int(sizes[samples[(home != NOWHERE) & (home != number)]].sum())
                begin = end
        return EpochTraffic(storage, network)

    kept = int(chunk_bytes[homes != NOWHERE].sum())
    return CacheForecast(kept, traffic(epoch, kept), traffic(epoch + 1, 0))


def _nothing_held(order: Order, nodes: Sequence[Sequence[int]], room: int) -> list[NodeHoldings]:
    nothing = np.zeros(order.chunks, bool)
    return [NodeHoldings(tuple(ranks), room, nothing) for ranks in nodes]


def foresee(order: Order, batches: Batches, epoch: int, nodes: Sequence[Sequence[int]], room: int,
            index, chunk_bytes: np.ndarray, deals_job: bool = False) -> CacheForecast:
    """Of nodes with these ranks, each of which may keep `room` bytes, from `epoch` on; the rest as
    node_reads() has it."""
    homes = find_homes(order, epoch, chunk_bytes, _nothing_held(order, nodes, room))
    nothing = np.zeros(order.chunks, bool)

    def traffic(of_epoch: int, is_kept: np.ndarray) -> EpochTraffic:
        storage = int(chunk_bytes[(homes != NOWHERE) & ~is_kept].sum())
        network = 0
        for number, ranks in enumerate(nodes):
            dealt = range(batches.ranks) if deals_job else ranks
            for loads in schedule_in_pieces(order, batches, of_epoch, ranks, True, dealt):
                home = homes[loads.chunk]
                read = bytes_read(index, order.chunk_samples, loads, chunk_bytes)
                storage += int(read[home == NOWHERE].sum())
                sent = bytes_sent(index, order.chunk_samples, loads, chunk_bytes)
                network += int(sent[(home != NOWHERE) & (home != number)].sum())
        return EpochTraffic(storage, network)

    return CacheForecast(int(chunk_bytes[homes != NOWHERE].sum()), traffic(epoch, nothing),
                         traffic(epoch + 1, homes != NOWHERE))
