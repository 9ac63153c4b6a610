"""What a suite measured of its series under one condition, such as a number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

from horovod_lab.measuring.comparison import Spread, by_round, compare

C = TypeVar("C", bound="Cell")


@dataclass(frozen=True)
class Measurements:
    """Measurements of several series, in rounds. A subclass has the names of its series in
    ORDER."""

    ORDER: ClassVar[Collection[str]] = ()

    measurements: Sequence[Mapping[str, Any]]

    @property
    def series(self) -> list[str]:
        """Those that were measured, or failed."""
        names = {measurement["series"] for measurement in self.measurements}
        return [name for name in self.ORDER if name in names]

    def values(self, series: str, key: str) -> dict[int, float]:
        return by_round(self.measurements, series, itemgetter(key))

    def spread(self, series: str, key: str) -> Spread | None:
        values = list(self.values(series, key).values())
        return Spread.of(values) if values else None

    def compare(self, series: str, base: str, key: str,
                how: Callable[[float, float], float]) -> Spread | None:
        """Of the rounds that have both."""
        return compare(self.values(series, key), self.values(base, key), how)

    def failures(self, series: str) -> list[str]:
        """Why jobs of the series failed."""
        return [measurement["failed"] for measurement in self.measurements
                if measurement["series"] == series and "failed" in measurement]


@dataclass(frozen=True)
class Cell(Measurements):
    """The measurements at a number of ranks."""

    ranks: int

    @classmethod
    def by_ranks(cls: type[C], document: Mapping[str, Any]) -> Iterator[C]:
        """By number of ranks."""
        measurements = document["measurements"]
        for ranks in sorted({measurement["ranks"] for measurement in measurements}):
            yield cls([measurement for measurement in measurements
                       if measurement["ranks"] == ranks], ranks)
