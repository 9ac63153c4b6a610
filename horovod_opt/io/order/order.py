"""The order of the samples in each epoch: a pure function of a few numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional

import numpy as np

from horovod_opt.io.errors import InputError, tell
from horovod_opt.io.order.chunks import Chunks
from horovod_opt.io.order.permutation import LARGEST, derive_key
from horovod_opt.io.order.shards import Shards
from horovod_opt.io.order.step_order import StepOrder
from horovod_opt.io.order.window_size import (
    CHUNK_BYTES,
    DEFAULT_BYTES,
    default_shards,
    window_of,
)
from horovod_opt.io.order.windows import Windows

VERSION = 2  # of the rules by which orders are made; states of version 1 go on by theirs
MOST_SHARDS = 4096
LARGEST_WINDOW = 2**48  # chunks; times MOST_SHARDS it still is an int64
IDENTITY_BYTES = 16
BLOCK = 1 << 15  # numbers at a time: intermediate results stay in the L2 cache


@dataclass(frozen=True)
class Order:
    """Which sample comes at which position of an epoch, for any number of ranks and any batch.

    `samples` of the data set are cut into chunks of `chunk_samples`. Chunks are permuted and
    divided into `shards`, which take turns; within `window` chunks of a shard the samples are
    permuted. `seed`, the epoch and `identity` (16 bytes, the data set's digest) are the keys.
    `shuffle=False`: position is sample, and `shards` and `window` are 1.

    Left out, `shards` and `window` are what window_size.py finds. Memory does not grow with
    `samples`. By `version` 1 a node's ranks are dealt nothing, each takes its share by place
    (dealing.py), and a window that holds a whole shard is cut like others (windows.py).

    Raises:
        InputError: a value is not possible, or there are no samples.
    """

    samples: int
    chunk_samples: int
    shards: Optional[int] = None
    window: Optional[int] = None
    seed: int = 0
    identity: bytes = bytes(IDENTITY_BYTES)
    shuffle: bool = True
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.samples == 0:
            raise InputError("the data set is empty: samples=0; remedy: look at the pattern and at "
                             "what it finds")
        _check("samples", self.samples, 1, LARGEST - 1)
        _check("chunk_samples", self.chunk_samples, 1, LARGEST - 1)
        _check("seed", self.seed, 0, 2**63 - 1)
        _check("version", self.version, 1, VERSION)
        if len(self.identity) != IDENTITY_BYTES:
            raise InputError(f"identity has {len(self.identity)} bytes; remedy: give the "
                             f"{IDENTITY_BYTES} bytes of the index's digest")
        if not self.shuffle:
            for name in ("shards", "window"):
                if getattr(self, name) not in (None, 1):
                    raise InputError(f"{name}={getattr(self, name)} with shuffle=False, where "
                                     f"nothing is divided; remedy: leave {name} out")
                object.__setattr__(self, name, 1)
            return
        if self.shards is None:
            object.__setattr__(self, "shards", default_shards(self.chunks))
        _check("shards", self.shards, 1, min(self.chunks, MOST_SHARDS),
               f"the data set has {self.chunks} chunks")
        if self.window is None:
            object.__setattr__(
                self, "window", window_of(DEFAULT_BYTES, self.chunks, self.shards, CHUNK_BYTES))
        _check("window", self.window, 1, LARGEST_WINDOW)

    @property
    def chunks(self) -> int:
        return -(-self.samples // self.chunk_samples)

    @property
    def has_whole_shards(self) -> bool:
        """Whether each shard is one window."""
        return self.version > 1 and self.window >= -(-self.chunks // self.shards)

    def epoch(self, epoch: int) -> Epoch:
        """The order of one epoch; kept for the next call."""
        _check("epoch", epoch, 0, 2**63 - 1)
        return _epoch(self, epoch)

    def at(self, epoch: int, positions: np.ndarray) -> np.ndarray:
        """The samples at `positions` (int64[k], 0 <= position < samples), as int64[k]."""
        bijections = self.epoch(epoch)
        return _in_blocks(
            lambda block: bijections.sample_at(bijections.shards.place_of(block)), positions)

    def position_of(self, epoch: int, samples: np.ndarray) -> np.ndarray:
        """Where `samples` (int64[k]) come: the inverse of `at`."""
        bijections = self.epoch(epoch)
        chunks, shards, windows = bijections.chunks, bijections.shards, bijections.windows
        return _in_blocks(
            lambda block: shards.position_of(windows.inverse(chunks.place_of(block))), samples)


class Epoch:
    """The three bijections that an order is made of: position, place, permuted place, sample."""

    def __init__(self, order: Order, epoch: int) -> None:
        def key(purpose: str):
            if not order.shuffle:
                return None
            return derive_key(order.identity, order.seed, epoch, purpose)

        self.chunks = Chunks(order.samples, order.chunk_samples, key("chunks"))
        self.shards = Shards(self.chunks, order.shards)
        self.windows = Windows(self.chunks, self.shards, order.window, key("windows"),
                               order.has_whole_shards)
        self.deal_key = key("dealing") if order.version > 1 else None
        self.steps = StepOrder(self)

    def sample_at(self, places: np.ndarray) -> np.ndarray:
        """The samples that come at `places`, int64[k] each."""
        return self.chunks.sample_at(self.windows.forward(places))


_epoch = lru_cache(maxsize=16)(Epoch)


def _in_blocks(function: Callable[[np.ndarray], np.ndarray], numbers: np.ndarray) -> np.ndarray:
    result = np.empty(len(numbers), np.int64)
    for start in range(0, len(numbers), BLOCK):
        result[start:start + BLOCK] = function(numbers[start:start + BLOCK])
    return result


def _check(name: str, value: int, least: int, most: int, because: str = "") -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) \
            or not least <= value <= most:
        raise InputError(f"{name}={tell(value)}{': ' * bool(because)}{because}; remedy: give a "
                         f"whole number from {least} to {most}")
