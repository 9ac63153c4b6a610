"""What a collective costs when all ranks are there: the alpha-beta model, hop by hop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from horovod_lab.simulate.parameters import Parameters


def layout(p: Parameters, ranks: int) -> tuple[int, int]:
    """(nodes, ranks of the fullest node)."""
    return math.ceil(ranks / p.ranks_per_node), min(ranks, int(p.ranks_per_node))


def hops(p: Parameters, ranks: int) -> int:
    """Rounds of recursive doubling, within the node and then between nodes."""
    nodes, local = layout(p, ranks)
    return math.ceil(math.log2(local)) + math.ceil(math.log2(nodes))


def small_allreduce(p: Parameters, ranks: int) -> float:
    """Seconds of an allreduce of a few bytes: recursive doubling, latency only.

    Thakur, Rabenseifner, Gropp, 2005, doi:10.1177/1094342005051521.
    """
    nodes, local = layout(p, ranks)
    return (math.ceil(math.log2(local)) * p.hop_intra_seconds
            + math.ceil(math.log2(nodes)) * p.hop_inter_seconds)


def data_allreduce(p: Parameters, ranks: int, size: float) -> float:
    """Seconds of an allreduce of `size` bytes over the network or between GPUs.

    The faster of ring and double binary tree, with the formulas by which NCCL 2.4.7 chooses
    (src/init.cc, ncclTreeThreshold): a tree crosses log2(nodes) levels, a ring every rank. Between
    two nodes a tree has twice the bandwidth. Where CPUs move the data within a node, only what
    crosses the network is counted here: see `data_work`.
    """
    nodes, local = layout(p, ranks)
    if ranks == 1 or (p.data_cpu_seconds_per_byte and nodes == 1):
        return 0.0
    ring = size / p.ring_bandwidth + p.ring_hop_seconds * (ranks - 1)
    if nodes == 1:
        return ring
    bandwidth = p.tree_bandwidth * (2 if nodes == 2 else 1)
    tree = (size / bandwidth + p.tree_hop_inter_seconds * math.floor(math.log2(nodes))
            + p.tree_hop_intra_seconds * (local - 1))
    return min(ring, tree)


def passes(local: int, planned: bool) -> float:
    """How often each of `local` ranks of a node goes through the data to reduce it there.

    With MPI: into the fusion buffer and out of it, and in reduce-scatter and allgather (k - 1) / k
    of the data each, copied into shared memory and out of it, and once added. With a plan: into
    shared memory, through the own k-th of all k ranks' data, and out again."""
    return 3 if planned else 2 + 5 * (local - 1) / local


def data_work(p: Parameters, ranks: int, size: float, planned: bool) -> float:
    """CPU seconds of each rank to reduce `size` bytes within its node."""
    return p.data_cpu_seconds_per_byte * size * passes(layout(p, ranks)[1], planned)


# Mode topo

PLACE = 512 * 2**10  # bytes of all ranks of a group up to which a bucket has a place of its own
CHUNK = 2 * 2**20  # bytes that are reduced at a time otherwise: core/reduction/node_collectives.h


def groups(p: Parameters, ranks: int) -> tuple[int, int]:
    """(groups of ranks that share memory, ranks of each): all are equally large."""
    _, local = layout(p, ranks)
    size = math.gcd(local, ranks)
    return ranks // size, size


def buckets(p: Parameters) -> int:
    """Of a step, equally large; 1e-9 is for the rounding of a quotient."""
    return max(1, math.ceil(p.gradient_bytes / p.bucket_bytes - 1e-9))


def is_internode(p: Parameters, ranks: int) -> bool:
    """Whether in mode topo CPUs reduce buckets between groups."""
    return groups(p, ranks)[0] > 1 and p.data_cpu_seconds_per_byte > 0


def cross_hops(groups: int) -> int:
    """From one group to the last one that hears of a message that each passes on: neighbours are
    a power of two apart."""
    return math.ceil(math.log2(groups))


def chunks(size: float) -> int:
    """In how many pieces a group reduces `size` bytes."""
    return math.ceil(size / CHUNK)


def barriers(group: int, size: float) -> int:
    """How often the ranks of the only group meet to reduce `size` bytes."""
    return 0 if group == 1 or size * group <= PLACE else chunks(size) + 1


@dataclass(frozen=True)
class Half:
    """What one of the two halves costs a rank that a reduction has in a group beside others.

    Attributes:
        passes: how often the rank goes through the data of the bucket.
        barriers: how often the ranks of the group meet.
    """

    passes: float
    barriers: int


def halves(group: int, size: float) -> tuple[Half, Half]:
    """Before and after the allreduce between groups of a bucket of `size` bytes: into shared memory
    and through the own part of all ranks' data; the own part into shared memory, and all of them
    out of it."""
    if group == 1:
        return Half(0, 0), Half(0, 0)
    return Half(2, chunks(size)), Half(1 + 1 / group, chunks(size))
