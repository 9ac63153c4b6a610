"""What a suite measured of its series under one condition, such as a number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

from horovod_lab.measuring.comparison import Spread, by_round, compare

C = TypeVar("C", bound="Cell")


@dataclass(frozen=True)
class Measured:
    """Measurements of several series, in rounds. A subclass has the names of its series in
    ORDER."""

    ORDER: ClassVar[Collection[str]] = ()

    measurements: Sequence[Mapping[str, Any]]

    @property
    def series(self) -> list[str]:
        """Those that were measured, or failed."""
        found = {one["series"] for one in self.measurements}
        return [name for name in self.ORDER if name in found]

    def values(self, series: str, key: str) -> dict[int, float]:
        return by_round(self.measurements, series, itemgetter(key))

    def spread(self, series: str, key: str) -> Spread | None:
        values = list(self.values(series, key).values())
        return Spread.of(values) if values else None

    def compared(self, series: str, base: str, key: str,
                 how: Callable[[float, float], float]) -> Spread | None:
        """Of the rounds that have both."""
        return compare(self.values(series, key), self.values(base, key), how)

    def failures(self, series: str) -> list[str]:
        """Why jobs of the series failed."""
        return [one["failed"] for one in self.measurements
                if one["series"] == series and "failed" in one]


@dataclass(frozen=True)
class Cell(Measured):
    """The measurements at a number of ranks."""

    ranks: int

    @classmethod
    def each(cls: type[C], document: Mapping[str, Any]) -> Iterator[C]:
        """By number of ranks."""
        measurements = document["measurements"]
        for ranks in sorted({one["ranks"] for one in measurements}):
            yield cls([one for one in measurements if one["ranks"] == ranks], ranks)
