"""What each rank sees of a shuffle, for any stream: the whole order may be a good one while each
rank draws from few places. Local batch normalization, for one, sees a rank's batch and no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import numpy as np

from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.relative_entropy import measure_rl
from horovod_opt.io.order.schedule import next_piece, take_steps

RUNS = 1000  # in place of classes: of the data's own order, as if it was sorted by class
FEWEST = 10  # samples of a run
SOME_STEPS, SOME_RANKS = 24, 8
WEAK, USUAL_BATCH = 0.9, 64


class RankView(NamedTuple):
    """`rl`: relative entropy of the samples that a rank gets, of the rank with the least; None: not
    looked at. `classes`: of how many classes a rank's batch is, in the mean of all, and the
    same of `independent` draws from all samples."""

    rl: Optional[float]
    classes: float
    independent: float

    @property
    def part(self) -> float:
        """Of the classes of independent draws."""
        return self.classes / self.independent


def rank_rl(stream: np.ndarray) -> float:
    """Relative entropy of what one rank gets (int64[k]) among its own samples: how much later than
    one of them does the next one in the data's order come?"""
    own = np.unique(stream)
    if not len(own):
        return 0.0
    return measure_rl(np.searchsorted(own, stream), len(own))


def runs_of(samples: int) -> np.ndarray:
    """Classes where there are none: equal runs of the data, int64[samples]."""
    return np.arange(samples) * min(RUNS, max(samples // FEWEST, 1)) // samples


def look(numbers: Sequence[np.ndarray], sizes: Sequence[Sequence[int]], labels: np.ndarray,
         with_rl: bool = True) -> RankView:
    """By rank: the numbers of the samples that it gets (int64[k]), and the sizes of its batches.
    `labels`, int64[samples], are of all samples."""
    frequency = np.bincount(labels) / len(labels)
    counts, expected = [], []
    for of_rank, of_batches in zip(numbers, sizes):
        batches = np.asarray(of_batches)
        number = np.repeat(np.arange(len(batches)), batches)
        pairs = np.unique(number * len(frequency) + labels[of_rank])
        counts.append(np.bincount(pairs // len(frequency), minlength=len(batches)))
        by_size = {size: (1 - (1 - frequency)**size).sum() for size in set(batches.tolist())}
        expected.append([by_size[size] for size in batches.tolist()])
    rl = min(map(rank_rl, numbers)) if with_rl else None
    classes, independent = (float(np.concatenate(values).mean()) for values in (counts, expected))
    return RankView(rl, classes, independent)


def look_at_order(order: Order, batches: Batches, epoch: int, nodes: Sequence[Sequence[int]],
                  labels: np.ndarray) -> RankView:
    """Of all ranks in a whole epoch."""
    taken = [_take(order, batches, epoch, node, rank, _pieces(batches))
             for node in nodes for rank in node]
    return look(*zip(*taken), labels)


def glance(order: Order, ranks: int, batch_size: int, nodes: Sequence[Sequence[int]],
           labels: np.ndarray) -> Optional[RankView]:
    """The classes of some ranks in some steps in the midst of an epoch, which takes some
    milliseconds. None: the data has no such batch."""
    if order.samples < 2 * ranks * batch_size:
        return None
    batches = Batches(order, ranks, batch_size)
    begin = batches.steps // 3
    end = min(begin + SOME_STEPS, max(batches.steps - 2, 1))
    some = [(node, rank) for node in nodes for rank in node]
    taken = [_take(order, batches, 0, node, rank, [(min(begin, end - 1), end)])
             for node, rank in some[::-(-len(some) // SOME_RANKS)]]
    return look(*zip(*taken), labels, with_rl=False)


def weakness(order: Order, nodes: Sequence[Sequence[int]], labels: np.ndarray) -> str:
    """What is to be said of a shuffle that leaves ranks few of the classes; "" for nothing."""
    if not order.shuffle:
        return ""
    view = glance(order, sum(map(len, nodes)), USUAL_BATCH, nodes, labels)
    if view is None or view.part >= WEAK:
        return ""
    return (f"labels are sorted and the shuffle is weak: a rank's batch of {USUAL_BATCH} is of "
            f"{view.classes:.1f} classes, independent draws of {view.independent:.1f}; remedy: "
            "more memory=, a larger window=, or a smaller chunk_samples=")


def _pieces(batches: Batches) -> Iterator[tuple[int, int]]:
    begin = 0
    while begin < batches.steps:
        end = next_piece(batches, begin)
        yield begin, end
        begin = end


def _take(order: Order, batches: Batches, epoch: int, node: Sequence[int], rank: int,
          pieces: Iterator[tuple[int, int]]) -> tuple[np.ndarray, list[int]]:
    numbers, sizes = [np.zeros(0, np.int64)], []
    for begin, end in pieces:
        numbers.append(take_steps(order, batches, epoch, begin, end, node, rank).samples)
        sizes += [batches.size(step, rank) for step in range(begin, end)]
    return np.concatenate(numbers), sizes
