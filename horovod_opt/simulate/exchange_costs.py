"""What an exchange between groups consists of in mode topo: messages, bytes, and which of them
come one after the other. As in csrc/core/nodes/exchange.h and schedule.cc."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

LITTLE = 32 * 2**10  # bytes up to which recursive doubling adds up
FIRST_CHUNK, CHUNK = 32 * 2**10, 512 * 2**10  # bytes
WINDOW = 4  # chunks under way at a time
LONGEST_RING = 16  # groups


@dataclass(frozen=True)
class Messages:
    """Of the busiest member: how many it sends, their bytes, and how many messages of all members
    follow each other."""

    number: int
    bytes: float
    chain: int


@dataclass(frozen=True)
class Exchange:
    """Of the busiest member. Nothing of the other chunks begins before the first one has ended.

    Attributes:
        hops: messages that follow each other if nothing but their way takes time.
        exposed: those of them that nothing else of the exchange hides.
    """

    number: int
    bytes: float
    hops: int
    exposed: int


def power_of_two(groups: int) -> int:
    """The largest one that is not larger."""
    return 1 << (groups.bit_length() - 1)


def recursive_doubling(groups: int, size: float) -> Messages:
    """All data in each step. Groups that are no power of two: one of each pair gives all of its
    data to the other one before, and gets all sums afterwards."""
    steps, paired = power_of_two(groups).bit_length() - 1, groups != power_of_two(groups)
    return Messages(steps + paired, size * (steps + paired), steps + 2 * paired)


def ring(groups: int, size: float) -> Messages:
    steps = 2 * (groups - 1)
    return Messages(steps, size * steps / groups, steps)


def halving_and_doubling(groups: int, size: float) -> Messages:
    power, paired = power_of_two(groups), groups != power_of_two(groups)
    steps = 2 * (power.bit_length() - 1)
    return Messages(steps + paired, size * (2 * (power - 1) / power + paired), steps + 2 * paired)


def schedule(groups: int, size: float) -> Messages:
    """By which `groups` members add up a chunk of `size` bytes."""
    if size <= LITTLE:
        return recursive_doubling(groups, size)
    return (ring if groups <= LONGEST_RING else halving_and_doubling)(groups, size)


@lru_cache
def exchange(groups: int, size: float) -> Exchange:
    """Of `size` bytes of each of `groups` members."""
    first = schedule(groups, min(size, FIRST_CHUNK))
    rest = max(0.0, size - FIRST_CHUNK)
    chunks = math.ceil(rest / CHUNK)
    if not chunks:
        return Exchange(first.number, first.bytes, first.chain, first.chain)
    whole, last = schedule(groups, CHUNK), schedule(groups, rest - (chunks - 1) * CHUNK)
    longest = whole.chain if chunks > 1 else last.chain
    return Exchange(
        first.number + (chunks - 1) * whole.number + last.number,
        first.bytes + (chunks - 1) * whole.bytes + last.bytes,
        first.chain + math.ceil(chunks / WINDOW) * longest, first.chain + longest)
