"""What a collective costs when all ranks are there: the alpha-beta model, hop by hop."""

from __future__ import annotations

import math

from horovod_opt.simulate.parameters import Parameters


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
CHUNK = 2 * 2**20  # bytes that are reduced at a time otherwise: core/shm/node_collectives.h


def groups(p: Parameters, ranks: int) -> tuple[int, int]:
    """(groups of ranks that share memory, ranks of each): all are equally large."""
    _, local = layout(p, ranks)
    size = math.gcd(local, ranks)
    return ranks // size, size


def cross_hops(groups: int) -> int:
    """Rounds of recursive doubling between one rank of each group."""
    return math.ceil(math.log2(groups))


def chunks(size: float) -> int:
    """In how many pieces a group reduces `size` bytes."""
    return math.ceil(size / CHUNK)


def barriers(groups: int, group: int, size: float) -> int:
    """How often the ranks of a group meet to reduce `size` bytes."""
    if group == 1:
        return 0
    if groups > 1:
        return 2 * chunks(size)
    return 0 if size * group <= PLACE else chunks(size) + 1


# Exchanges between groups: core/nodes/exchange.h, schedule.h

LITTLE = 32 * 2**10  # bytes up to which recursive doubling adds up, and of the first chunk
LONGEST_RING = 16  # groups
NAP_PART = 4  # of the time that a message takes is slept between two tests
SHORTEST_NAP, LONGEST_NAP = 10e-6, 500e-6


def doubling_hops(groups: int) -> int:
    """Messages one after the other in recursive doubling; two more if no power of two."""
    power = groups.bit_length() - 1
    return power + (0 if groups == 1 << power else 2)


def exchange_wire(p: Parameters, groups: int, size: float) -> float:
    """Seconds for which `size` bytes occupy the network of each node."""
    if size <= LITTLE:
        return doubling_hops(groups) * size / (2 * p.ring_bandwidth)
    return size / p.ring_bandwidth


def exchange_latency(p: Parameters, groups: int, size: float) -> float:
    """Seconds of the hops of an exchange of `size` bytes, each noticed half a nap late."""
    nap = min(max(p.hop_inter_seconds / NAP_PART, SHORTEST_NAP), LONGEST_NAP)
    hops = doubling_hops(groups)
    if size > LITTLE:
        ring = 2 * (groups - 1)
        hops += ring if groups <= LONGEST_RING else 2 * doubling_hops(groups)
    return hops * (p.hop_inter_seconds + nap / 2)
