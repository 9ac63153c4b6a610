"""Values of which processors make different sums: NaNs, infinities, zeros of both signs, denormals,
the greatest. Drawn as bits, from a seed; NumPy has no bfloat16.
"""

from __future__ import annotations

import functools

import numpy as np

SEED = 20
COUNT = 301  # which no vector divides
FRACTIONS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}  # bits
WIDTHS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
OPERATIONS = ("Sum", "Average", "Product", "Min", "Max")
NAMES = [f"{operation} of {dtype}" for operation in OPERATIONS for dtype in FRACTIONS]


def word(dtype: str) -> str:
    return f"uint{WIDTHS[dtype]}"


def drawn(name: str, rank: int) -> np.ndarray:
    """The bits that a rank gives under this name."""
    dtype = name.split()[-1]
    fraction, width = FRACTIONS[dtype], WIDTHS[dtype]
    random = np.random.default_rng([SEED, rank, NAMES.index(name)])
    infinity = (1 << width - 1) - (1 << fraction)
    quiet, one = 1 << fraction - 1, ((1 << width - fraction - 2) - 1) << fraction
    kinds = [0, infinity, infinity | quiet, infinity - 1, one]
    with_payload = [0, infinity, infinity | quiet, 1 << fraction, one]  # denormals among them
    bits = np.array(random.choice(kinds + with_payload, COUNT), object)
    payloads = random.integers(1, quiet, COUNT, dtype=np.int64).astype(object)
    has_payload = random.random(COUNT) < 0.5
    signs = random.integers(0, 2, COUNT).astype(object) << width - 1
    return (np.where(has_payload, bits | payloads, bits) | signs).astype(word(dtype))


def floats(bits: np.ndarray, dtype: str) -> np.ndarray:
    """As they are computed: float16 and bfloat16 as float32."""
    if dtype == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    values = bits.view(dtype)
    return values.astype(np.float32) if dtype == "float16" else values


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Bits."""
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return values.astype(dtype).view(word(dtype))


def extreme(operation: str, given: list[np.ndarray]) -> np.ndarray:
    """-0 is less than +0."""
    best = functools.reduce(np.minimum if operation == "Min" else np.maximum, given)
    negative = [np.signbit(values) for values in given]
    sign = np.any(negative, 0) if operation == "Min" else np.all(negative, 0)
    return np.where(best == 0, np.where(sign, -0.0, 0.0).astype(best.dtype), best)


def nans_given(name: str, ranks: int) -> np.ndarray:
    """How many ranks give one."""
    dtype = name.split()[-1]
    return sum(is_nan(drawn(name, rank), dtype).astype(int) for rank in range(ranks))


def expected(name: str, ranks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the result is known; where it is a NaN; and its bits, where it is none."""
    operation, _, dtype = name.split()
    given = [floats(drawn(name, rank), dtype) for rank in range(ranks)]
    nans = np.any([np.isnan(values) for values in given], 0)
    if operation in ("Min", "Max"):
        return np.full(COUNT, True), nans, rounded(extreme(operation, given), dtype)
    if ranks > 2:  # a sum may be infinite in one order, and not in another
        return nans, nans, np.zeros(COUNT, word(dtype))
    with np.errstate(all="ignore"):
        result = given[0] * given[1] if operation == "Product" else given[0] + given[1]
        if operation == "Average":
            result = floats(rounded(result, dtype), dtype) / ranks
        nans = np.isnan(result)
        return np.full(COUNT, True), nans, rounded(np.where(nans, 0, result), dtype)


def is_nan(bits: np.ndarray, dtype: str) -> np.ndarray:
    return np.isnan(floats(bits, dtype))
