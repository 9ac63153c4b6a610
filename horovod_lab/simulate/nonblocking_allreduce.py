"""The nonblocking allreduce between groups in mode topo: its messages, bytes, and which of them
come one after the other. As in nonblocking_allreduce.h and allreduce_schedules.cc of
csrc/core/network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

LITTLE = 32 * 2**10  # bytes up to which recursive doubling adds up
FIRST_CHUNK, CHUNK = 32 * 2**10, 512 * 2**10  # bytes
CHANNELS = 4  # chunks under way at a time
LONGEST_RING = 16  # groups


@dataclass(frozen=True)
class Schedule:
    """Of the busiest member of a chunk: the bytes that it sends; and how many messages of all
    members follow each other."""

    bytes: float
    hops: int


@dataclass(frozen=True)
class NonblockingAllreduce:
    """Nothing of the other chunks begins before the first one has ended; then some are under way at
    a time.

    Attributes:
        bytes: that the busiest member sends.
        hops: messages that follow each other if nothing but their way takes time.
        exposed: those of them that no other chunk hides: of the first and of the last one.
    """

    bytes: float
    hops: int
    exposed: int


def power_of_two(groups: int) -> int:
    """The largest one that is not larger."""
    return 1 << (groups.bit_length() - 1)


def recursive_doubling(groups: int, size: float) -> Schedule:
    """All data in each step. Groups that are no power of two: one of each pair gives all of its
    data to the other one before, and gets all sums afterwards."""
    steps, paired = power_of_two(groups).bit_length() - 1, groups != power_of_two(groups)
    return Schedule(size * (steps + paired), steps + 2 * paired)


def ring(groups: int, size: float) -> Schedule:
    steps = 2 * (groups - 1)
    return Schedule(size * steps / groups, steps)


def halving_and_doubling(groups: int, size: float) -> Schedule:
    power, paired = power_of_two(groups), groups != power_of_two(groups)
    return Schedule(size * (2 * (power - 1) / power + paired),
                    2 * (power.bit_length() - 1) + 2 * paired)


def schedule(groups: int, size: float) -> Schedule:
    """By which `groups` members add up a chunk of `size` bytes."""
    if size <= LITTLE:
        return recursive_doubling(groups, size)
    return (ring if groups <= LONGEST_RING else halving_and_doubling)(groups, size)


@lru_cache
def nonblocking_allreduce(groups: int, size: float) -> NonblockingAllreduce:
    """Of `size` bytes of each of `groups` members."""
    first = schedule(groups, min(size, FIRST_CHUNK))
    rest = max(0.0, size - FIRST_CHUNK)
    chunks = math.ceil(rest / CHUNK)
    if not chunks:
        return NonblockingAllreduce(first.bytes, first.hops, first.hops)
    whole, last = schedule(groups, CHUNK), schedule(groups, rest - (chunks - 1) * CHUNK)
    longest = whole.hops if chunks > 1 else last.hops
    return NonblockingAllreduce(
        first.bytes + (chunks - 1) * whole.bytes + last.bytes,
        first.hops + math.ceil(chunks / CHANNELS) * longest, first.hops + longest)


def copied(tensor_bytes: float) -> float:
    """Which part of the data of a rank that is a group of its own is copied into buffers and out of
    them: chunks that are not within a tensor. Tensors of `tensor_bytes` bytes on average end
    anywhere."""
    return 1 - math.exp(-CHUNK / tensor_bytes)
