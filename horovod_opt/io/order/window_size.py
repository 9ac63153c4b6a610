"""Sizes of chunks, shards and windows where the user gives none.

Measured, with what the windows hold in all nodes together:

    data                             window   held     relative entropy
    50,000 x 3 KiB, 146 MiB               4    59 MiB  91 %
    1,281,167 x 3 kB, 3.6 GiB             4   1.0 GiB  90 %
    100,000 x 110 KiB, 10.5 GiB           6   1.5 GiB  81 %; 90 % takes 4 GiB, window=16
    1,281,167 x 110 KiB, 134 GiB          6   1.5 GiB  68 %; 90 % takes 36 GiB, window=145
"""

from __future__ import annotations

import math
from typing import Optional

import numpy as np

from horovod_opt.io.order.relative_entropy import TRIANGLE

CHUNK_BYTES = 4 << 20  # parallel file systems reach their bandwidth with requests of this size
MOST_DEFAULT_SHARDS = 64
CHUNKS_PER_SHARD = 8  # at least: fewer end at very different times
RL_TARGET = 0.9
LIVE_CHUNKS = 384  # 1.5 GiB in all nodes together; changing windows needs a quarter more at most


def default_chunk_samples(samples: int, data_bytes: int, shards: Optional[int] = None) -> int:
    """As many samples as 4 MiB hold on average, at least 1; or fewer, if all shards then have
    equally many chunks. None: as many shards as are the default.

    Shards that are longer than others go on alone at the end of an epoch, and all nodes read of
    them."""
    chunks = math.ceil(samples / max(1, round(CHUNK_BYTES * samples / max(data_bytes, 1))))
    if not isinstance(shards, int) or shards < 1:  # Order says what is wrong with it
        shards = default_shards(chunks)
    return max(1, math.ceil(samples / (math.ceil(chunks / shards) * shards)))


def default_shards(chunks: int) -> int:
    """The largest power of two up to 64 that leaves 8 chunks for each, at least 1."""
    return 1 << (max(1, min(MOST_DEFAULT_SHARDS, chunks // CHUNKS_PER_SHARD)).bit_length() - 1)


def window_for(target: float, samples: int, chunk_samples: int, shards: int) -> int:
    """The smallest window, in chunks of a shard, whose relative entropy is `wanted` (0 to 1)."""
    chunks = -(-samples // chunk_samples)
    least, most = 1, math.ceil(chunks / shards)
    while least < most:
        middle = (least + most) // 2
        if expected_rl(samples, chunk_samples, shards, middle) >= target:
            most = middle
        else:
            least = middle + 1
    return least


def expected_rl(samples: int, chunk_samples: int, shards: int, window: int) -> float:
    """What relative_entropy.measure_rl() finds, to a few percent if a window has a hundred samples
    or more: the mean over the windows of a shard, of which the first and the last one are shorter,
    of the entropy of the distance of two shuffled samples."""
    if samples < 2:
        return 0.0
    chunks = samples / chunk_samples / shards
    first = np.minimum(1 + np.arange(shards) * window // shards, chunks)
    whole, last = np.divmod(chunks - first, window)
    sizes = np.stack([first, np.full(shards, window), last])
    weights = sizes * np.stack([np.ones(shards), whole, np.ones(shards)])
    bits = np.log2(np.maximum(sizes * shards * chunk_samples, 1)) + TRIANGLE
    return float(np.average(bits, weights=weights) / (np.log2(samples) + TRIANGLE))


def default_window(samples: int, chunk_samples: int, shards: int) -> int:
    """In chunks: as many as a relative entropy of 90 % needs, but at most 384 over all shards."""
    return max(1, min(window_for(RL_TARGET, samples, chunk_samples, shards), LIVE_CHUNKS // shards))
