"""How fast a script trained, from what it printed."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Line = tuple[float, str]  # when it came, in seconds, and its text
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


class Rate(Protocol):
    unit: str

    def of(self, lines: Sequence[Line]) -> float | None:
        """None if they do not tell."""


@dataclass(frozen=True)
class LastNumber:
    """The last number that it printed."""

    unit: str
    pattern: str

    def of(self, lines: Sequence[Line]) -> float | None:
        matches = [match for _, text in lines for match in re.findall(self.pattern, text)]
        return float(matches[-1]) if matches else None


@dataclass(frozen=True)
class Bar:
    """The last rate of tqdm's progress bars whose text matches; tqdm tells slow steps' time."""

    pattern: str
    unit: str = "steps/s"

    def of(self, lines: Sequence[Line]) -> float | None:
        matches = [match for _, text in lines
                   for match in re.findall(self.pattern + r".*?([\d.]+)(it/s|s/it)", text)]
        if not matches:
            return None
        number, unit = matches[-1]
        return float(number) if unit == "it/s" else 1 / float(number)


@dataclass(frozen=True)
class PerStep:
    """Keras's time of a step, an epoch a line: the median, without the first where there are more.

    The groups of `pattern` are the epoch's steps, the time of one, and its unit.
    """

    pattern: str
    unit: str = "steps/s"

    def of(self, lines: Sequence[Line]) -> float | None:
        matches = [float(time) * _SECONDS[unit] for _, text in lines
                   for _, time, unit in re.findall(self.pattern, text)]
        times = [time for time in matches[1:] or matches if time > 0]
        return 1 / statistics.median(times) if times else None


@dataclass(frozen=True)
class CountRate:
    """What it counts, by when the counts came; from the first rise to where it begins anew."""

    unit: str
    pattern: str

    def of(self, lines: Sequence[Line]) -> float | None:
        counts: list[tuple[float, int]] = []
        for when, text in lines:
            for count in re.findall(self.pattern, text):
                if counts and int(count) < counts[-1][1]:
                    return _slope(counts)
                if not counts or int(count) > counts[-1][1]:
                    counts.append((when, int(count)))
        return _slope(counts)


def _slope(counts: list[tuple[float, int]]) -> float | None:
    """Without the first count, which waits for the first step to be traced."""
    rest = counts[1:]
    if len(rest) < 2 or rest[-1][0] <= rest[0][0]:
        return None
    return (rest[-1][1] - rest[0][1]) / (rest[-1][0] - rest[0][0])
