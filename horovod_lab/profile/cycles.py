"""The cycles of background threads, from how their counters move in a short burst of reading.

The scheduler adds to a thread's counters when it gives it a core, when it takes it away, and at
each clock tick in between. Seen every half millisecond or so, that tells when the thread ran, when
it waited for a core although it could have run (an oversleep, 6.2.4), and when it slept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

RUNNING, WAITING, ASLEEP = "running", "waiting", "asleep"


class Reading(NamedTuple):
    """At `time`, a thread's CPU time and time in a run queue, all in seconds, and how often it was
    given a core."""

    time: float
    cpu: float
    delay: float
    slices: int


class Interval(NamedTuple):
    """In seconds."""

    start: float
    end: float
    state: str


def intervals(readings: Sequence[Reading], runs_at_end: bool) -> list[Interval]:
    """What the thread did, from the first to the last reading without a gap.

    The readings are those that differ from the one before, besides the first and the last.
    `runs_at_end`: whether the thread was runnable at the last one. Within the time between two
    readings the order is assumed: asleep, waiting, running. A reading without a new slice means
    that the thread had kept its core, and that it may have left it when the CPU time that was added
    was over.
    """
    timeline: list[Interval] = []
    position = readings[0].time  # up to where it is known what the thread did

    def add(length: float, until: float, state: str) -> None:
        nonlocal position
        end = min(position + max(length, 0.0), until)
        if end > position:
            if timeline and timeline[-1].state == state:
                timeline[-1] = timeline[-1]._replace(end=end)
            else:
                timeline.append(Interval(position, end, state))
            position = end

    for before, now in zip(readings, readings[1:]):
        ran, waited = now.cpu - before.cpu, now.delay - before.delay
        if now.slices != before.slices:
            add(now.time - position - ran - waited, now.time, ASLEEP)
            add(waited, now.time, WAITING)
            add(now.time - position, now.time, RUNNING)
        else:
            add(ran, now.time, RUNNING)
    end = readings[-1].time
    add(end - position, end, RUNNING if runs_at_end else ASLEEP)
    return timeline


def oversleeps(readings: Sequence[Reading]) -> list[float]:
    """How long the thread waited for a core, in seconds, each time that it was given one. Where
    that happened several times between two readings, their mean as often."""
    waits: list[float] = []
    for before, now in zip(readings, readings[1:]):
        if times := now.slices - before.slices:
            waits += [(now.delay - before.delay) / times] * times
    return waits


def merge(timelines: Sequence[Sequence[Interval]]) -> list[Interval]:
    """Several threads as one timeline: running if any runs, else waiting if any waits."""
    if len(timelines) == 1:
        return list(timelines[0])
    edges = sorted({edge for timeline in timelines for interval in timeline
                    for edge in (interval.start, interval.end)})
    places = [0] * len(timelines)
    merged: list[Interval] = []
    for start, end in zip(edges, edges[1:]):
        states = set()
        for number, timeline in enumerate(timelines):
            while places[number] < len(timeline) and timeline[places[number]].end <= start:
                places[number] += 1
            if places[number] < len(timeline) and timeline[places[number]].start <= start:
                states.add(timeline[places[number]].state)
        state = next((candidate for candidate in (RUNNING, WAITING) if candidate in states), ASLEEP)
        if merged and merged[-1].state == state:
            merged[-1] = merged[-1]._replace(end=end)
        else:
            merged.append(Interval(start, end, state))
    return merged


def share(timelines: Sequence[Sequence[Interval]], state: str, start: float, end: float) -> float:
    """Of the time from `start` to `end`, over all timelines, the share in that state."""
    total = sum(max(0.0, min(interval.end, end) - max(interval.start, start))
                for timeline in timelines for interval in timeline if interval.state == state)
    return total / (len(timelines) * (end - start))


def clip(timeline: Sequence[Interval], start: float, end: float) -> list[Interval]:
    """The part from `start` to `end`, counted from `start`."""
    return [Interval(max(interval.start, start) - start, min(interval.end, end) - start,
                     interval.state)
            for interval in timeline if interval.end > start and interval.start < end]
