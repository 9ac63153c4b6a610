"""How the nodes of a job find each other's memory as a loader is made: what each keeps, and where
it answers."""

from __future__ import annotations

import base64
import json
import secrets
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from horovod_opt.io.errors import InputError
from horovod_opt.io.job import nodes
from horovod_opt.io.job.agreement import run_together
from horovod_opt.io.job.own_address import own_address
from horovod_opt.io.kept.homes import NOWHERE, NodeHoldings, find_homes
from horovod_opt.io.kept.job_memory import JobMemory
from horovod_opt.io.node_reader.layout import chunk_bytes
from horovod_opt.io.order.order import Order

if TYPE_CHECKING:
    from horovod_opt.io.data import Data

LOOPBACK = "127.0.0.1"


class MemoryMeeting(NamedTuple):
    """What the nodes have said, by number; this rank's is `number`. `addresses`: "host port
    secret"."""

    order: Order
    number: int
    holdings: tuple[NodeHoldings, ...]
    addresses: tuple[str, ...]

    def settle(self, memory: JobMemory, epoch: int) -> np.ndarray:
        """The same table on all nodes: from now on `memory` is the home of its part. Returns which
        chunks have one, bool[chunks]."""
        homes = find_homes(self.order, epoch, memory.chunk_bytes, self.holdings)
        memory.set_homes(homes, self.number, self.addresses)
        return homes != NOWHERE


def meet(data: Data, order: Order) -> MemoryMeeting:
    """Collective: every rank calls it as a loader is made for this order, and has `data.job_memory`
    afterwards if it reads for its node.

    Raises InputError or DataError on all ranks, of whichever cannot take part.
    """
    ranks, node = data.ranks, data.node
    places = [json.loads(row) for row in ranks.allgather(json.dumps(
        nodes.where() if node.is_reader else None).encode())]
    readers = [place for place in places if place is not None]

    def prepare() -> str:
        if len(readers) > 1 and data.index.crc is None:
            raise InputError(
                f"cache={data.kept_place.bytes} on {len(readers)} nodes, and an index without "
                "checksums: what comes from another node has to be compared; remedy: an index with "
                "checksums, horovod-opt io index, or leave checksums=False out")
        memory = data.job_memory
        if memory is not None and not (node.is_reader
                                       and memory.is_of(data.index, order.chunk_samples)):
            memory.close()
            memory = data.job_memory = None
        if not node.is_reader:
            return ""
        if memory is None:
            memory = data.job_memory = JobMemory(
                data.index, order.chunk_samples, chunk_bytes(data.index, order.chunk_samples),
                data.kept_place)
        if len(readers) > 1:
            memory.serve(LOOPBACK if len(set(readers)) == 1 else own_address("cache="),
                         secrets.token_hex(16))
        held = zlib.compress(np.packbits(memory.is_home).tobytes(), 1)
        return json.dumps([ranks.rank, list(data.shares.of_node), memory.place.bytes,
                           memory.address, base64.b64encode(held).decode()])

    own = run_together(ranks, prepare)
    rows = [json.loads(row) for row in ranks.allgather(own.encode()) if row]
    holdings = tuple(
        NodeHoldings(tuple(shares), room, _bits(held, order.chunks))
        for _, shares, room, _, held in rows)
    number = [reader for reader, *_ in rows].index(node.ranks[0])
    return MemoryMeeting(order, number, holdings, tuple(address for *_, address, _ in rows))


def _bits(text: str, count: int) -> np.ndarray:
    packed = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
    return np.unpackbits(packed, count=count).astype(bool)
