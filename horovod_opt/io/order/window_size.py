"""Sizes of chunks, shards and windows where the user gives none."""

from __future__ import annotations

import math
from typing import Optional

import numpy as np

from horovod_opt.io.order.relative_entropy import TRIANGLE

# Parallel file systems reach their bandwidth with requests of 4 MiB. Of less than a GiB each of
# several nodes would have few of them, and so few classes where data is sorted by class.
CHUNK_BYTES, SMALL_CHUNK_BYTES, FEW_CHUNKS = 4 << 20, 64 << 10, 256
# Each file is a request, which larger chunks do not merge; but each chunk costs something, too.
FILES, FILES_BYTES = 4, 64 << 10
MOST_DEFAULT_SHARDS = 64
CHUNKS_PER_SHARD = 8  # at least: fewer end at very different times
RL_TARGET = 0.9
DEFAULT_BYTES = 3 << 29  # 1.5 GiB in all nodes together; changing windows needs a quarter more


def default_chunk_samples(samples: int, data_bytes: int, shards: Optional[int] = None,
                          are_files: bool = False, shuffle: bool = True,
                          few_chunks: int = FEW_CHUNKS) -> int:
    """As many samples as 4 MiB hold on average, at least 1; to shuffle less than a GiB, one of
    `few_chunks` parts of it, or what 64 KiB hold; or fewer, if all shards then have equally many
    chunks. None: as many shards as are the default. `are_files`: 4 samples, or what 64 KiB hold, if
    that is less.

    Shards that are longer than others go on alone at the end of an epoch, and all nodes read of
    them."""
    chunk_bytes = CHUNK_BYTES
    if shuffle:
        chunk_bytes = min(CHUNK_BYTES, max(SMALL_CHUNK_BYTES, data_bytes / few_chunks))
    most = chunk_bytes * samples / max(data_bytes, 1)
    if are_files:
        most = min(most, max(FILES, FILES_BYTES * samples / max(data_bytes, 1)))
    chunks = math.ceil(samples / max(1, round(most)))
    if not isinstance(shards, int) or shards < 1:  # Order says what is wrong with it
        shards = default_shards(chunks)
    return max(1, math.ceil(samples / (math.ceil(chunks / shards) * shards)))


def default_shards(chunks: int) -> int:
    """The largest power of two up to 64 that leaves 8 chunks for each, at least 1."""
    return 1 << (max(1, min(MOST_DEFAULT_SHARDS, chunks // CHUNKS_PER_SHARD)).bit_length() - 1)


def window_of(held: int, chunks: int, shards: int, chunk_bytes: float) -> int:
    """The largest window, in chunks of a shard, of which those of all shards hold at most so many
    bytes, at least 1; a whole shard where all of the data is no more than that."""
    whole = math.ceil(chunks / shards)
    if chunks * chunk_bytes <= held:
        return whole
    return max(1, min(whole, int(held / (chunk_bytes * shards))))


def window_for(target: float, samples: int, chunk_samples: int, shards: int) -> int:
    """The smallest window, in chunks of a shard, whose relative entropy is `target` (0 to 1)."""
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
    if window >= math.ceil(chunks):
        return 1.0
    first = np.minimum(1 + np.arange(shards) * window // shards, chunks)
    whole, last = np.divmod(chunks - first, window)
    sizes = np.stack([first, np.full(shards, window), last])
    weights = sizes * np.stack([np.ones(shards), whole, np.ones(shards)])
    bits = np.log2(np.maximum(sizes * shards * chunk_samples, 1)) + TRIANGLE
    return float(np.average(bits, weights=weights) / (np.log2(samples) + TRIANGLE))
