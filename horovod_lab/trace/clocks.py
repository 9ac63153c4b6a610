"""The clocks of several hosts, aligned by what the ranks did together.

All processes of a host have one steady clock. Between hosts only the time of day is common, and
may differ by milliseconds. But what all ranks reduce together ends on none of them before it has
begun on all: every bucket bounds from both sides how much one host's clock is ahead of another's,
as the two messages of Cristian's algorithm do (DOI 10.1007/BF01784024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from horovod_lab.trace.rank_timeline import RankTimeline, meetings


@dataclass(frozen=True)
class Alignment:
    """`starts`: by position of the timelines, when its time began, in us of the first one's host;
    `error_us`: by host, the most by which its clock may be off; None: nothing was done together, so
    that it is as the times of day have it."""

    starts: tuple[float, ...]
    error_us: dict[str, float | None]


def align(timelines: Sequence[RankTimeline]) -> Alignment:
    by_boot: dict[str, list[int]] = {}
    for number, timeline in enumerate(timelines):
        by_boot.setdefault(timeline.boot or timeline.host, []).append(number)
    own = [timeline.start_ns / 1e3 for timeline in timelines]
    reference, *others = by_boot.values()
    starts, errors = list(own), {}
    spans = [_meetings(timeline, start) for timeline, start in zip(timelines, own)]
    for numbers in others:
        shift, error = _shift(spans, reference, numbers)
        if shift is None:
            ahead = [timelines[n].start_epoch_us - own[n] for n in (reference[0], numbers[0])]
            shift = ahead[1] - ahead[0]
        for number in numbers:
            starts[number] = own[number] + shift
        errors[timelines[numbers[0]].host] = error
    return Alignment(tuple(starts), errors)


def _meetings(timeline: RankTimeline, start: float) -> dict[str, tuple[float, float]]:
    return {key: (start + begin, start + end) for key, begin, end in meetings(timeline)}


def _shift(spans: Sequence[dict[str, tuple[float, float]]], reference: Sequence[int],
           numbers: Sequence[int]) -> tuple[float | None, float | None]:
    """What has to be added to times of `numbers`' host to get those of the reference's, and the
    most by which that may be wrong, in us."""
    here, there = _of_host(spans, reference), _of_host(spans, numbers)
    both = here.keys() & there.keys()
    if not both:
        return None, None
    least = max(here[key][0] - there[key][1] for key in both)
    most = min(here[key][1] - there[key][0] for key in both)
    return (least + most) / 2, abs(most - least) / 2


def _of_host(spans: Sequence[dict[str, tuple[float, float]]],
             numbers: Sequence[int]) -> dict[str, tuple[float, float]]:
    """By key: the last begin on the host, and the first end."""
    found: dict[str, tuple[float, float]] = {}
    for number in numbers:
        for key, (begin, end) in spans[number].items():
            last, first = found.get(key, (begin, end))
            found[key] = max(begin, last), min(end, first)
    return found
