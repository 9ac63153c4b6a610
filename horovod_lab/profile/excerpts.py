"""Chooses what the picture of the cycles shows, and sums up all bursts."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from horovod_lab.profile.bursts import RESOLUTION, Burst
from horovod_lab.profile.cycles import (
    RUNNING,
    WAITING,
    Interval,
    clip,
    intervals,
    merge,
    oversleeps,
    share,
)

LENGTH = 0.04  # s
RULES = {
    "typical": "of all windows of 40 ms, the one in which the background threads run as much as in "
               "the median one",
    "longest oversleep": "40 ms, or more if need be, around the longest wait for a core",
}
MOST_OVERSLEEPS = 10_000  # of a rank


class Excerpt(NamedTuple):
    """`length` from `offset` in a burst, both in seconds."""

    burst: Burst
    timelines: Mapping[int, Sequence[Interval]]  # by the pid of the rank, of the whole burst
    offset: float
    length: float = LENGTH

    def running(self) -> float:
        return share(list(self.timelines.values()), RUNNING, self.offset, self.offset + self.length)


def summarize(bursts: Sequence[Burst], ranks: Mapping[int, int], began: float, steady: float,
              cycle_time: float) -> dict | None:
    """The part `cycles` of the document, of the bursts in the steady part if there are any. `ranks`
    from pid to rank, `began` and `steady` (its start) as time.monotonic(); None without a burst."""
    whole = [burst for burst in bursts if burst.threads.keys() >= ranks.keys()]
    if not whole:
        return None
    whole = [burst for burst in whole if burst.start >= steady] or whole
    waits: dict[str, list[float]] = {}
    rates: dict[str, float] = {}
    for pid, rank in ranks.items():
        threads = [thread for burst in whole for thread in burst.threads[pid]]
        oversleep = [wait for thread in threads for wait in oversleeps(thread.readings)]
        waits[str(rank)] = [round(wait, 7) for wait in oversleep[:MOST_OVERSLEEPS]]
        wakeups = sum(thread.readings[-1].slices - thread.readings[0].slices for thread in threads)
        seconds = sum(burst.threads[pid][0].readings[-1].time for burst in whole)
        rates[str(rank)] = round(wakeups / seconds, 2)
    return {
        "resolution_seconds": RESOLUTION,
        "cycle_time_seconds": cycle_time,
        "seconds": round(sum(burst.threads[min(ranks)][0].readings[-1].time for burst in whole), 3),
        "oversleeps_seconds": waits,
        "wakeups_per_second": rates,
        "bursts": [_describe(name, excerpt, ranks, began)
                   for name, excerpt in _choose(whole, ranks)],
    }


def _choose(bursts: Sequence[Burst], ranks: Mapping[int, int]) -> list[tuple[str, Excerpt]]:
    excerpts: list[Excerpt] = []
    longest: tuple[float, Excerpt] | None = None
    for burst in bursts:
        timelines = {pid: merge([intervals(thread.readings, thread.runs_at_end)
                                 for thread in burst.threads[pid]]) for pid in ranks}
        end = min(timeline[-1].end for timeline in timelines.values())
        excerpts += [Excerpt(burst, timelines, number * LENGTH / 2)
                     for number in range(int((end - LENGTH) / (LENGTH / 2)) + 1)]
        for waiting in (interval for timeline in timelines.values() for interval in timeline
                        if interval.state == WAITING):
            wait = waiting.end - waiting.start
            if longest is None or wait > longest[0]:
                length = min(max(LENGTH, 1.5 * wait), end)
                offset = min(max((waiting.start + waiting.end - length) / 2, 0.0), end - length)
                longest = wait, Excerpt(burst, timelines, offset, length)
    running = [excerpt.running() for excerpt in excerpts]
    typical = excerpts[running.index(statistics.median_low(running))]
    return [("typical", typical), *([("longest oversleep", longest[1])] if longest else [])]


def _describe(name: str, excerpt: Excerpt, ranks: Mapping[int, int], began: float) -> dict:
    start, end = excerpt.offset, excerpt.offset + excerpt.length
    return {
        "shown": name, "rule": RULES[name], "seconds": round(excerpt.length, 6),
        "start": round(excerpt.burst.start - began + start, 6),
        "ranks": {str(rank): [[round(interval.start, 6), round(interval.end, 6), interval.state]
                              for interval in clip(excerpt.timelines[pid], start, end)]
                  for pid, rank in ranks.items()},
    }
