"""How far a shuffle is from a complete one: relative entropy (RL), 0 for a known order, 1 for a
complete shuffle. DeepIO (Zhu et al., MASCOTS 2018, doi:10.1109/MASCOTS.2018.00023) introduced it.
"""

from __future__ import annotations

import math

import numpy as np

EXACT = 256  # distances up to this one have a bin each
BINS_PER_OCTAVE = 32  # beyond it: a few thousand bins for any data set, each with many samples
# Bits that the distance of two of n shuffled samples has above log2(n): its frequency falls
# linearly on both sides of 0.
TRIANGLE = 0.5 / math.log(2)


def rl_paper(samples: int, group: int) -> float:
    """RL of an order in which `group` neighbours stay together: H of samples / group elements over
    H of `samples`, where H, the cross-entropy to a complete shuffle of j elements that are left,
    sums up log2(j) / j. The source's 73, 49 and 16 % for groups of 4, 16 and 256 are those of
    10,000 samples, within a point; the source does not give its number of
    samples. samples >= 2."""
    return _cross_entropy(samples // group) / _cross_entropy(samples)


def _cross_entropy(elements: int) -> float:
    remaining = np.arange(1, elements + 1)
    return float(np.sum(np.log2(remaining) / remaining))


def measure_rl(stream: np.ndarray, samples: int) -> float:
    """RL of a stream of sample numbers (int64[k], 0 <= number < samples), of any origin.

    It is the entropy of one distance: how much later than sample s does sample s + 1 come? A
    sequential order always has 1, shards that are read sequentially in turn their number, a shuffle
    within windows anything up to the window's length, a complete shuffle anything. The stream's
    entropy is divided by that of a complete shuffle of as many samples, found in the same way. It
    is stricter than `rl_paper`: groups of 4 of 10,000 samples reach 30 %, not 73 %.

    Of a sample that comes twice, the second time is left out; with a sample that does not come, the
    distances to it. Fewer than two neighbours in the stream: 0.

    Beyond 256, distances that differ by less than 1/32 octave count as one, and all of them as
    equally frequent: a few places more or less within a batch make no difference to training.
    """
    first = np.unique(stream, return_index=True)[1]
    stream = stream[np.sort(first)]
    place = np.full(samples, -1, np.int64)
    place[stream] = np.arange(len(stream))
    are_placed = (place[:-1] >= 0) & (place[1:] >= 0)
    distances = np.diff(place)[are_placed]
    if not len(distances):
        return 0.0
    complete = np.random.default_rng(0).permutation(len(stream))
    reference = _entropy(np.diff(complete))
    return min(1.0, _entropy(distances) / reference) if reference else 0.0


def _entropy(distances: np.ndarray) -> float:
    """Bits, from a histogram: sum of p log2(width / p)."""
    size = np.abs(distances)
    octaves = np.log2(np.maximum(size, EXACT) / EXACT)
    beyond = EXACT + 1 + np.floor(octaves * BINS_PER_OCTAVE).astype(np.int64)
    bins = np.where(size <= EXACT, size, beyond)
    counts = np.bincount(2 * bins + (distances < 0))
    edges = np.floor(EXACT * 2.0 ** (np.arange(len(counts) // 2 + 1) / BINS_PER_OCTAVE))
    number = np.flatnonzero(counts) // 2
    beyond = np.maximum(number - EXACT - 1, 0)
    width = np.where(number <= EXACT, 1, edges[beyond + 1] - edges[beyond])
    p = counts[counts > 0] / len(distances)
    return float(np.sum(p * np.log2(width / p)))
