"""Which samples of a step each rank of a group gets.

Places of one step that are near each other are of few chunks, and chunks of few classes where data
is sorted. So a run of places would be a rank's worst batch. A group is the ranks of a node: their
node reads what they take together, whoever of them gets it. That is, as ever, a run of places for
each rank.

These are dealt in rounds, as cards are: of each `ranks` places that follow each other every rank
gets one, which one is drawn for each round. So each rank gets of each shard as much as any other,
and any place is equally likely to be any rank's. A rank's batch has its rounds in a permuted order:
parts of a batch are as mixed as the whole.

The key is of seed, epoch and step, which is known by its first position: what is left of an epoch
is dealt as the whole would be. In C++ it is csrc/io/order/dealing.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from horovod_opt.io.order.permutation import Key, Permutation, derive_keys

if TYPE_CHECKING:
    from horovod_opt.io.order.batches import Batches


class Hand(NamedTuple):
    """What a rank is dealt from, in steps of one size: it is number `index` of the `ranks` of a
    group, which takes the samples of `runs` (by place, int64[k, 2])."""

    runs: np.ndarray
    ranks: int
    index: int


def hand_of(batches: Batches, step: int, group: Sequence[int], rank: int) -> Hand:
    """Of a rank that is one of `group`, which ascends."""
    return Hand(np.array(batches.shares(step, group), np.int64).reshape(-1, 2), len(group),
                list(group).index(rank))


def deal(key: Key, step: int, hand: Hand) -> np.ndarray:
    """The numbers, among the samples of a step sorted by place, that a rank gets in its turns:
    int64[k]. `step`: its first position."""
    numbers = np.concatenate([np.arange(first, end) for first, end in hand.runs])
    size = len(numbers) // hand.ranks + (hand.index < len(numbers) % hand.ranks)
    if not size:
        return np.zeros(0, np.int64)
    key = derive_keys(key, np.array([step], np.uint64))
    rounds = Permutation(size, key).forward(np.arange(size))
    ranks = np.minimum(hand.ranks, len(numbers) - rounds * hand.ranks)
    shifts = derive_keys(key, rounds.astype(np.uint64))[0] % ranks.astype(np.uint64)
    return numbers[rounds * hand.ranks + (hand.index + shifts.astype(np.int64)) % ranks]
