"""Interleaving of measurements, and what is made of them: median, spread, comparison in pairs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

C = TypeVar("C")
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


def in_rounds(cells: Sequence[C], series: Callable[[C], Sequence[T]], rounds: int
              ) -> list[tuple[int, C, T]]:
    """(round, cell, series) of all cells, in each of which the series are interleaved.

    By round first: an interrupted benchmark has then measured everything equally often.
    """
    jobs = [(number, cell, item) for cell in cells
            for number, item in interleave(series(cell), rounds)]
    return sorted(jobs, key=lambda job: job[0])


def by_round(measurements: Sequence[dict[str, Any]], series: str,
             value: Callable[[dict[str, Any]], float]) -> dict[int, float]:
    """The values of the jobs of a series that did not fail."""
    return {measurement["round"]: value(measurement) for measurement in measurements
            if measurement["series"] == series and "failed" not in measurement}


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
class Noise:
    """Standard deviation in relation to the mean, and its degrees of freedom."""

    relative: float
    freedom: int

    @classmethod
    def of(cls, samples: Sequence[Sequence[float]]) -> Noise | None:
        """Pooled over samples that have the same noise but different means; None if none of them
        has two values."""
        repeated = [sample for sample in samples if len(sample) > 1]
        freedom = sum(len(sample) - 1 for sample in repeated)
        if not freedom:
            return None
        squares = sum((len(sample) - 1) * (statistics.stdev(sample) / statistics.fmean(sample)) ** 2
                      for sample in repeated)
        return cls((squares / freedom) ** 0.5, freedom)


@dataclass(frozen=True)
class ConfidenceInterval:
    """Mean of `n` values and its 95 % confidence interval by Student's t, as if they were normally
    distributed; `low` and `high` are None if nothing is known of the noise."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float], noise: Noise | None) -> ConfidenceInterval:
        mean, n = statistics.fmean(values), len(values)
        if noise is None:
            return cls(mean, None, None, n)
        from scipy.stats import t

        half = float(t.ppf(0.975, noise.freedom)) * noise.relative * abs(mean) / n**0.5
        return cls(mean, mean - half, mean + half, n)

    def minus(self, amount: float) -> ConfidenceInterval:
        ends = (end if end is None else end - amount for end in (self.low, self.high))
        return ConfidenceInterval(self.mean - amount, *ends, self.n)


def ratio(value: float, base: float) -> float | None:
    """None where the base is 0, as idle CPU may be."""
    return value / base if base else None


def difference(value: float, base: float) -> float:
    return value - base


def pairs(values: Mapping[int, float], base: Mapping[int, float],
          how: Callable[[float, float], float | None]) -> list[float]:
    """`how` of each round's pair of values, where a round has both and it is a number."""
    answers = (how(values[number], base[number])
               for number in sorted(values.keys() & base.keys()))
    return [pair for pair in answers if pair is not None]


def compare(values: Mapping[int, float], base: Mapping[int, float],
            how: Callable[[float, float], float | None]) -> Spread | None:
    """Of `pairs`; None where there is none."""
    quotients = pairs(values, base, how)
    return Spread.of(quotients) if quotients else None
