"""Inputs and right results as bits: special values that are reduced, any bits that are moved.

Of the values in one place of all ranks, the result is the same in every order of ranks: exact,
infinite, or a NaN. NumPy has no bfloat16, and computes float16 as float32 does.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from programs import MOVED, Collective

# Bits of a number, and of its fraction.
WIDTHS = {"float16": (16, 10), "bfloat16": (16, 7), "float32": (32, 23), "float64": (64, 52)}
ONE_NAN = {"float16": 0x7fff, "bfloat16": 0x7fc0}  # of planned sums
(SMALL, A_NAN, NANS, INFINITIES, BOTH_INFINITIES, ZEROS, DENORMALS, GREATEST, ONE_GREATEST
 ) = range(9)


class Result(NamedTuple):
    """What a rank must get. In places of `nans` it is any NaN; in places of `open`, unless the
    collective is planned, anything: upstream's operations give one or the other."""

    words: np.ndarray
    nans: np.ndarray
    open: np.ndarray
    dtype: str

    def differences(self, words: np.ndarray, planned: bool) -> np.ndarray:
        """Places."""
        wrong = words != self.words
        if self.dtype in WIDTHS:
            wrong[self.nans] = ~is_nan(words, self.dtype)[self.nans]
            if planned and self.dtype in ONE_NAN:
                wrong[self.nans] = words[self.nans] & 0x7fff != ONE_NAN[self.dtype]
        return np.flatnonzero(wrong if planned else wrong & ~self.open)


def word(dtype: str) -> np.dtype:
    """Of an element's bits; those of a complex128 are two words."""
    size = MOVED.get(dtype) or WIDTHS[dtype][0] // 8
    return np.dtype(f"uint{8 * min(size, 8)}")


def given(about: Collective, rank: int, group: Sequence[int], elements: int, number: int
          ) -> np.ndarray:
    """The words that `rank` gives when it is called with that number."""
    return _given(about.bits, about.dtype, group.index(rank), len(group), elements, number,
                  about.kind in ("allreduce", "reducescatter"))


def gradient(bits: int, dtype: str, rank: int, ranks: int, elements: int, step: int) -> np.ndarray:
    return _given(bits, dtype, rank, ranks, elements, step, True)


def _given(bits: int, dtype: str, place: int, ranks: int, elements: int, number: int,
           is_reduced: bool) -> np.ndarray:
    own = np.random.default_rng([bits, place, number])
    if not is_reduced:
        size = MOVED.get(dtype) or WIDTHS[dtype][0] // 8
        drawn = own.integers(0, 256, size * elements, dtype=np.uint8)
        return (drawn % 2 if dtype == "bool" else drawn).view(word(dtype))
    shared = np.random.default_rng([bits])
    kind = shared.integers(0, 9, elements)
    is_chosen = shared.integers(0, ranks, elements) == place
    sign = shared.integers(0, 2, elements)
    width, fraction = WIDTHS[dtype]
    infinity = (1 << width - 1) - (1 << fraction)
    one = ((1 << width - fraction - 2) - 1) << fraction
    own_sign, coin = own.integers(0, 2, elements), own.integers(0, 2, elements) == 1
    payload = own.integers(1, 1 << fraction, elements, dtype=np.uint64)
    quiet = payload | np.uint64(1 << fraction - 1)
    # 1, 1.5 or 2, which have exact sums and products in each type.
    small = np.array([one, one | 1 << fraction - 1, one + (1 << fraction)], np.uint64)[
        own.integers(0, 3, elements)]

    def if_(condition: np.ndarray, value: object) -> np.ndarray:
        return np.where(condition, np.asarray(value, np.uint64), small)

    words = np.choose(kind, [
        small, if_(is_chosen, np.uint64(infinity) | quiet), if_(coin, np.uint64(infinity) | quiet),
        if_(coin, infinity), if_(coin, infinity), np.zeros_like(small),
        payload >> np.uint64(2), np.full_like(small, infinity - 1),
        np.where(is_chosen, np.uint64(infinity - 1), np.uint64(0))])
    words[(words == 0) & (kind == DENORMALS)] = 1
    is_signed = np.isin(kind, [A_NAN, NANS, BOTH_INFINITIES, ZEROS, DENORMALS])
    signs = np.where(is_signed, own_sign, np.where(
        np.isin(kind, [INFINITIES, GREATEST]) & (words >= infinity - 1), sign, 0))
    return (words | signs.astype(np.uint64) << np.uint64(width - 1)).astype(word(dtype))


def reduced(op: str, dtype: str, parts: Sequence[np.ndarray]) -> Result:
    """A sum, mean, product, minimum or maximum; in Min and Max NaNs win, and -0 is less than 0."""
    values = [floats(part, dtype) for part in parts]
    nans = np.any([np.isnan(value) for value in values], 0)
    with np.errstate(all="ignore"):
        if op in ("Min", "Max"):
            best = functools.reduce(np.minimum if op == "Min" else np.maximum, values)
            negative = [np.signbit(value) for value in values]
            has_both = (best == 0) & np.any(negative, 0) & ~np.all(negative, 0)
            sign = np.any(negative, 0) if op == "Min" else np.all(negative, 0)
            best = np.where(best == 0, np.where(sign, -0.0, 0.0).astype(best.dtype), best)
            return Result(rounded(np.where(nans, 0, best), dtype), nans, nans | has_both, dtype)
        total = functools.reduce(np.multiply if op == "Product" else np.add, values)
        if op == "Average":
            total = floats(rounded(total, dtype), dtype) / len(parts)
        nans = np.isnan(total)
        return Result(rounded(np.where(nans, 0, total), dtype), nans, np.zeros_like(nans), dtype)


def moved(words: np.ndarray, dtype: str) -> Result:
    nothing = np.zeros(words.shape, bool)
    return Result(words, nothing, nothing, dtype)


def split(result: Result, parts: int) -> list[Result]:
    return [Result(*arrays, result.dtype) for arrays in zip(*(
        np.split(array, parts) for array in result[:3]))]


def floats(words: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        return (words.astype(np.uint32) << 16).view(np.float32)
    values = words.view(dtype)
    return values.astype(np.float32) if dtype == "float16" else values


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return values.astype(dtype).view(word(dtype))


def is_nan(words: np.ndarray, dtype: str) -> np.ndarray:
    return np.isnan(floats(words, dtype))
