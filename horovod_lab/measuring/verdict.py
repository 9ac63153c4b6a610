"""Whether a target is met: what the suites that have targets share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from horovod_lab.measuring.comparison import Spread
from horovod_lab.measuring.present import number


class Bound:
    """Of a target, in its `unit`: exactly one of `least` and `most` is not None."""

    unit: str
    least: float | None
    most: float | None

    def __str__(self) -> str:
        bound = f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"
        return f"{bound} {self.unit}"

    def allows(self, value: float) -> bool:
        return value >= self.least if self.least is not None else value <= self.most


@dataclass(frozen=True)
class Verdict:
    """`met` is None where something that it needs was not measured; `why` says what is missing or
    failed."""

    target: Bound
    value: Spread | None
    met: bool | None
    why: str = ""

    def words(self) -> str:
        if self.met is None:
            return self.why
        return "yes" if self.met else f"no: {self.why}" if self.why else "no"


def verdict(target: Bound, value: Spread | None, failed: str, absent: Sequence[str]) -> Verdict:
    """A target whose jobs failed (`failed` says which) is not met, whatever the others say."""
    if failed:
        return Verdict(target, value, False, failed)
    if absent or value is None:
        return Verdict(target, value, None, f"{', '.join(absent) or 'a pair'} not measured")
    return Verdict(target, value, target.allows(value.median))


def in_two_lines(spread: Spread | None, form: str = "") -> str:
    """Median, smallest to largest, for narrow columns; `form` is a format, "" for three digits."""
    if spread is None:
        return ""
    show = (lambda value: f"{value:{form}}") if form else number
    median = show(spread.median)
    return median if spread.n == 1 else f"{median}\n{show(spread.low)}-{show(spread.high)}"
