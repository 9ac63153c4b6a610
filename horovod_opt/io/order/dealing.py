"""Which samples of a step each rank of a group gets.

Places of one step that are near each other are of few chunks, and chunks of few classes where data
is sorted. So a run of places would be a rank's worst batch. A group is the ranks of a node: their
node reads what they take together, whoever of them gets it. That is, as ever, a run of places for
each rank; in all of them the samples are permuted, and dealt to the ranks one share after the
other.

The permutation's key is of seed, epoch and step, which is known by its first position: what is left
of an epoch is dealt as the whole would be. In C++ it is csrc/io/order/dealing.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from horovod_opt.io.order.permutation import Key, Permutation, derive_keys

if TYPE_CHECKING:
    from horovod_opt.io.order.batches import Batches


class Hand(NamedTuple):
    """What a rank is dealt in steps of one size: of the samples of the group's `runs` (by place,
    int64[k, 2]), permuted, those from number `first` to `end` - 1."""

    runs: np.ndarray
    first: int
    end: int


def hand_of(batches: Batches, step: int, group: Sequence[int], rank: int) -> Hand:
    """Of a rank that is one of `group`."""
    before = sum(batches.size(step, other) for other in group if other < rank)
    runs = np.array(batches.shares(step, group), np.int64)
    return Hand(runs, before, before + batches.size(step, rank))


def deal(key: Key, step: int, hand: Hand) -> np.ndarray:
    """The numbers, among the samples of a step sorted by place, that a rank gets in its turns:
    int64[k]. `step`: its first position."""
    numbers = np.concatenate([np.arange(first, end) for first, end in hand.runs])
    turns = np.arange(hand.first, hand.end)
    if not len(turns):
        return turns
    return numbers[Permutation(len(numbers), derive_keys(key, np.array([step], np.uint64))
                               ).forward(turns)]
