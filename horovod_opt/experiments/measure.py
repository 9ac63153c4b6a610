"""Interleaving of measurements, and what is made of them: median, spread, comparison in pairs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


def interleave(series: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """(round, series): every series once a round, each round beginning with the next one.

    A machine that becomes slower or faster meanwhile then does so for every series alike, and none
    is always measured first.
    """
    for number in range(rounds):
        start = number % len(series)
        for item in [*series[start:], *series[:start]]:
            yield number, item


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of `n` values; quartiles would say little of so few."""

    median: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values), len(values))


@dataclass(frozen=True)
class Interval:
    """Mean of `n` values and its 95 % confidence interval by Student's t, as if they were normally
    distributed; of a single value the interval is unknown: `low` and `high` are None."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        mean, n = statistics.fmean(values), len(values)
        if n < 2:
            return cls(mean, None, None, n)
        from scipy.stats import t

        half = float(t.ppf(0.975, n - 1)) * statistics.stdev(values) / n**0.5
        return cls(mean, mean - half, mean + half, n)


def ratio(value: float, base: float) -> float | None:
    """None where the base is 0, as idle CPU may be."""
    return value / base if base else None


def difference(value: float, base: float) -> float:
    return value - base


def pairs(values: Mapping[int, float], base: Mapping[int, float],
          how: Callable[[float, float], float | None]) -> list[float]:
    """`how` of each round's pair of values, where a round has both and it is a number."""
    both = (how(values[number], base[number]) for number in sorted(values.keys() & base.keys()))
    return [pair for pair in both if pair is not None]


def compare(values: Mapping[int, float], base: Mapping[int, float],
            how: Callable[[float, float], float | None]) -> Spread | None:
    """Of `pairs`; None where there is none."""
    compared = pairs(values, base, how)
    return Spread.of(compared) if compared else None
