"""Keyed permutations of range(n), any place of which is computed alone, in both directions.

A Feistel network permutes the numbers of as many bits as n - 1 has; a result that is not below n is
permuted again until it is (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite
Domains", CT-RSA 2002, doi:10.1007/3-540-45760-7_9), less than once more on average. TensorFlow's
`random_index_shuffle` is built likewise, upon the cipher Simon. Ours shuffles; it keeps no secrets.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Union

import numpy as np

LARGEST = 2**62  # what a permutation may have numbers of
ROUNDS = 8
# Measured on a million keys: the orders of 5 to 8 numbers are equally frequent with 32 rounds, not
# with 24; those of 9 to 16 with 12, not with 8; from 17 numbers on 8 rounds show no difference.
FEW_BITS, ROUNDS_OF_FEW = 6, 48

_MIX = tuple(np.uint64(one) for one in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_HALF = np.uint64(32)

Key = tuple[np.ndarray, np.ndarray]  # uint64, of one element or one for each number


def derive_key(identity: bytes, seed: int, epoch: int, purpose: str) -> Key:
    """The key of one purpose in one epoch: equal arguments, equal keys, on every machine.

    `seed` and `epoch`: 0 <= value < 2**63."""
    digest = hashlib.blake2b(struct.pack("<qq", seed, epoch) + identity, digest_size=16,
                             person=purpose.encode()).digest()
    first, second = np.frombuffer(digest, "<u8").astype(np.uint64)[:, np.newaxis]
    return first, second


def derive_keys(key: Key, numbers: np.ndarray) -> Key:
    """A key of its own for each of `numbers` (uint64[k]), as two arrays uint64[k]."""
    step = numbers * _MIX[0]
    return _mixed(key[0] + step), _mixed(key[1] ^ step)


class Permutation:
    """A permutation of range(n): `forward` and its `inverse`.

    `n` and both arrays of `key` hold one element, or one for each number that is permuted, which is
    then permuted within its own range(n) by its own key. 1 <= n < 2**62."""

    def __init__(self, n: Union[int, np.ndarray], key: Key) -> None:
        self._n = np.atleast_1d(np.asarray(n)).astype(np.uint64)
        self._key = key

    def forward(self, numbers: np.ndarray) -> np.ndarray:
        """Where each of `numbers` (int64[k], each in its range(n)) goes, as int64[k]."""
        return self._permuted(numbers, forward=True)

    def inverse(self, numbers: np.ndarray) -> np.ndarray:
        """Which numbers go to `numbers`: the inverse of `forward`, with its shapes."""
        return self._permuted(numbers, forward=False)

    def _permuted(self, numbers: np.ndarray, forward: bool) -> np.ndarray:
        numbers, n, key = numbers.astype(np.uint64), self._n, self._key
        bits = _bit_length(n - np.uint64(1))
        few = bits < FEW_BITS
        result = np.empty_like(numbers)
        for where, rounds in ((few, ROUNDS_OF_FEW), (~few, ROUNDS)):
            if where.all():
                result = _walk(numbers, n, bits, key, rounds, forward)
            elif where.any():
                result[where] = _walk(numbers[where], n[where], bits[where],
                                      (_part(key[0], where), _part(key[1], where)), rounds, forward)
        return result.astype(np.int64)


def _walk(numbers: np.ndarray, n: np.ndarray, bits: np.ndarray, key: Key, rounds: int,
          forward: bool) -> np.ndarray:
    result = _feistel(numbers, bits, key, rounds, forward)
    outside = np.flatnonzero(result >= n)
    while len(outside):
        again = _feistel(result[outside], _part(bits, outside),
                         (_part(key[0], outside), _part(key[1], outside)), rounds, forward)
        result[outside] = again
        outside = outside[again >= _part(n, outside)]
    return result


def _feistel(numbers: np.ndarray, bits: np.ndarray, key: Key, rounds: int,
             forward: bool) -> np.ndarray:
    """Both halves change in turn, so they need not be of equal size. Round i has key[0] + i x
    key[1]."""
    one = np.uint64(1)
    low = bits >> one
    of_right = (one << low) - one
    of_left = (one << (bits - low)) - one
    left, right = numbers >> low, numbers & of_right
    round_key, step = key[0].copy(), key[1]
    if not forward:
        round_key += np.uint64(rounds - 1) * step
    for turn in range(rounds) if forward else reversed(range(rounds)):
        if turn % 2 == 0:
            left ^= _scrambled(right, round_key) & of_left
        else:
            right ^= _scrambled(left, round_key) & of_right
        (np.add if forward else np.subtract)(round_key, step, out=round_key)
    return left << low | right


def _scrambled(half: np.ndarray, key: np.ndarray) -> np.ndarray:
    """32 bits, each of which depends on all bits of `half` and `key`."""
    value = half + key
    value *= _MIX[1]
    value ^= value >> _HALF
    value *= _MIX[2]
    value >>= _HALF
    return value


def _mixed(value: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014,
    doi:10.1145/2660193.2660195)."""
    value = (value ^ (value >> np.uint64(30))) * _MIX[1]
    value = (value ^ (value >> np.uint64(27))) * _MIX[2]
    return value ^ (value >> np.uint64(31))


def _bit_length(value: np.ndarray) -> np.ndarray:
    """Exact, unlike a logarithm: of uint64[k], as uint64[k]."""
    length = np.zeros_like(value)
    rest = value.copy()
    for exponent in (5, 4, 3, 2, 1, 0):
        large = (rest >= np.uint64(1 << (1 << exponent))).astype(np.uint64) << np.uint64(exponent)
        length += large
        rest >>= large
    return length + rest


def _part(values: np.ndarray, which: np.ndarray) -> np.ndarray:
    return values if len(values) == 1 else values[which]
