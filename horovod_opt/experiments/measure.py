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


def ratio(value: float, base: float) -> float | None:
    """None where the base is 0, as idle CPU may be."""
    return value / base if base else None


def difference(value: float, base: float) -> float:
    return value - base


def compare(values: Mapping[int, float], base: Mapping[int, float],
            how: Callable[[float, float], float | None]) -> Spread | None:
    """`how` of each round's pair of values; None where no round has both."""
    pairs = [how(values[number], base[number]) for number in sorted(values.keys() & base.keys())]
    compared = [pair for pair in pairs if pair is not None]
    return Spread.of(compared) if compared else None
