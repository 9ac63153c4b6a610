"""Cycles of the background threads, from what the scheduler's counters show."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horovod_lab.profile.bursts import Burst, ThreadReadings
from horovod_lab.profile.cycles import (
    ASLEEP,
    RUNNING,
    WAITING,
    Interval,
    Reading,
    clip,
    intervals,
    merge,
    oversleeps,
    share,
)
from horovod_lab.profile.excerpts import summarize

TICK = 0.004  # s, as with CONFIG_HZ=250
STEP = 0.0005


def played(life: Sequence[tuple[str, float]]) -> list[Interval]:
    edges = list(itertools.accumulate((length for _, length in life), initial=0.0))
    return [Interval(*span, state) for (state, _), span in zip(life, zip(edges, edges[1:]))]


def readings_of(true: Sequence[Interval]) -> list[Reading]:
    """What reading every STEP shows of such a life, by the kernel's rules: time in the run queue
    counts when the wait is over, running time at ticks and when the thread leaves its core."""

    def at(time: float) -> Reading:
        cpu = delay = 0.0
        slices = 0
        for interval in true:
            if interval.start >= time:
                break
            if interval.state == RUNNING:
                slices += 1
                ran = min(interval.end, time) - interval.start
                cpu += ran if interval.end <= time else ran // TICK * TICK
            elif interval.state == WAITING and interval.end < time:
                delay += interval.end - interval.start
        return Reading(time, cpu, delay, slices)

    end = true[-1].end
    all_readings = [at(number * STEP) for number in range(1, int(end / STEP))]
    changed = [first for _, (first, *_) in itertools.groupby(all_readings,
                                                             lambda reading: reading[1:])]
    return [*changed, at(end)]


def total(timeline: Sequence[Interval], state: str) -> float:
    return sum(interval.end - interval.start for interval in timeline if interval.state == state)


lengths = st.floats(0.0011, 0.02)
lives = st.lists(st.tuples(lengths, lengths, lengths), min_size=2, max_size=12).map(
    lambda cycles: played([part for asleep, waiting, running in cycles
                           for part in ((ASLEEP, asleep), (WAITING, waiting), (RUNNING, running))]))


@given(lives)
def test_a_life_is_found_again(true):
    """Every state at most a reading's distance beside where it was, each as often."""
    timeline = intervals(readings_of(true), runs_at_end=True)
    assert [interval.state for interval in timeline] == [interval.state for interval in true]
    for interval, expected in zip(timeline[1:], true[1:]):
        assert interval.start == pytest.approx(expected.start, abs=2 * STEP)


@given(lives)
def test_intervals_have_no_gap_and_no_overlap_and_keep_the_times(true):
    readings = readings_of(true)
    timeline = intervals(readings, runs_at_end=True)
    assert timeline[0].start == readings[0].time
    assert timeline[-1].end == pytest.approx(readings[-1].time)
    assert all(interval.end == following.start
               for interval, following in zip(timeline, timeline[1:]))
    assert all(interval.end > interval.start for interval in timeline)
    assert total(timeline, WAITING) == pytest.approx(
        readings[-1].delay - readings[0].delay, abs=1e-9)


@given(lives)
def test_oversleeps_are_exact(true):
    expected = [interval.end - interval.start for interval in true if interval.state == WAITING]
    assert oversleeps(readings_of(true)) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1), st.floats(0, 1), st.integers(0, 3)),
                min_size=2, max_size=20), st.booleans())
def test_whatever_is_read_becomes_intervals_one_after_the_other(steps, runs):
    """Late readings, and times that do not add up because a hypervisor took the core."""
    sums = itertools.accumulate(steps, lambda a, b: tuple(map(sum, zip(a, b))))
    readings = [Reading(float(time), *rest) for time, *rest in sums]
    timeline = intervals(readings, runs)
    assert all(interval.end == following.start and interval.state != following.state
               for interval, following in zip(timeline, timeline[1:]))
    assert sum(interval.end - interval.start for interval in timeline) == pytest.approx(
        readings[-1].time - readings[0].time)


def test_several_waits_between_two_readings_count_as_often():
    readings = [Reading(0, 0, 0, 0), Reading(1, 0.1, 0.6, 3), Reading(2, 0.2, 0.6, 3)]
    assert oversleeps(readings) == pytest.approx([0.2, 0.2, 0.2])


def test_a_thread_that_never_changes():
    same = [Reading(0, 5, 5, 5), Reading(1, 5, 5, 5)]
    assert intervals(same, runs_at_end=False) == [Interval(0, 1, ASLEEP)]
    assert intervals(same, runs_at_end=True) == [Interval(0, 1, RUNNING)]


def test_two_threads_in_one_timeline():
    first = played([(ASLEEP, 4), (WAITING, 2), (RUNNING, 2)])
    second = played([(RUNNING, 1), (ASLEEP, 4), (RUNNING, 3)])
    assert merge([first, second]) == played([(RUNNING, 1), (ASLEEP, 3), (WAITING, 1), (RUNNING, 3)])
    assert merge([first]) == first


def test_share_and_clip():
    timelines = [played([(RUNNING, 2), (ASLEEP, 2)]), played([(ASLEEP, 1), (RUNNING, 3)])]
    assert share(timelines, RUNNING, 1, 3) == pytest.approx((1 + 2) / 4)
    assert clip(timelines[0], 1, 3) == [Interval(0, 1, RUNNING), Interval(1, 2, ASLEEP)]


def burst(start: float, *lives: Sequence[Interval]) -> Burst:
    return Burst(start, {pid: [ThreadReadings(pid, readings_of(life), True)]
                         for pid, life in enumerate(lives)})


def cycles(number: int, asleep: float, waiting: float, running: float) -> list[Interval]:
    return played([(ASLEEP, asleep), (WAITING, waiting), (RUNNING, running)] * number)


def test_windows_show_the_median_and_the_longest_oversleep():
    idle, busy = cycles(20, 0.018, 0.002, 0.004), cycles(20, 0.002, 0.002, 0.02)
    late = played([(ASLEEP, 0.1), (WAITING, 0.03), (RUNNING, 0.15)])
    bursts = [burst(101, late, late), burst(105, idle, idle), burst(110, busy, busy),
              burst(120, late, idle),
              Burst(130, {0: [ThreadReadings(0, readings_of(late), True)]})]  # one rank had ended
    summary = summarize(bursts, {0: 0, 1: 7}, began=100, steady=105, cycle_time=0.005)
    typical, longest = summary["bursts"]
    assert longest["shown"] == "longest oversleep"
    assert 20.1 < longest["start"] + longest["seconds"] / 2 < 20.13
    lengths = [end - start for start, end, state in longest["ranks"]["0"] if state == WAITING]
    assert max(lengths) == pytest.approx(0.03, abs=2 * STEP)
    assert 5 <= typical["start"] < 21
    for window in (typical, longest):
        for timeline in window["ranks"].values():
            assert timeline[0][0] == 0
            assert timeline[-1][1] == pytest.approx(window["seconds"], abs=1e-5)
    assert summary["wakeups_per_second"].keys() == {"0", "7"}
    assert max(summary["oversleeps_seconds"]["0"]) == pytest.approx(0.03, abs=1e-6)
    assert max(summary["oversleeps_seconds"]["7"]) == pytest.approx(0.002, abs=1e-6)


def test_a_window_is_as_long_as_the_longest_oversleep_needs():
    life = played([(ASLEEP, 0.2), (WAITING, 0.1), (RUNNING, 0.1)])
    summary = summarize([burst(0, life)], {0: 0}, began=0, steady=0, cycle_time=0.001)
    window = summary["bursts"][1]
    assert window["seconds"] == pytest.approx(0.15, abs=2 * STEP)
    assert [state for _, _, state in window["ranks"]["0"]] == [ASLEEP, WAITING, RUNNING]


def test_a_burst_before_the_steady_part_is_better_than_none():
    """As one after it is, in which a rank had ended."""
    life = cycles(5, 0.02, 0.02, 0.06)
    summary = summarize([burst(1, life), Burst(9, {})], {0: 0}, began=0, steady=5, cycle_time=0.001)
    assert 1 <= summary["bursts"][0]["start"] < 1.5


def test_wakeups_per_second():
    summary = summarize([burst(0, cycles(20, 0.008, 0.002, 0.01))], {0: 0}, 0, 0, 0.001)
    assert summary["wakeups_per_second"]["0"] == pytest.approx(50, rel=0.1)


def test_no_oversleep_at_all():
    asleep = ThreadReadings(3, [Reading(0, 1, 1, 1), Reading(0.5, 1, 1, 1)], False)
    summary = summarize([Burst(0, {3: [asleep]})], {3: 0}, 0, 0, 0.001)
    assert [window["shown"] for window in summary["bursts"]] == ["typical"]
    assert summary["oversleeps_seconds"] == {"0": []}


def test_threads_that_were_read_by_mistake_are_left_out():
    """Upstream's background thread is known for certain at the end only."""
    life = readings_of(cycles(2, 0.1, 0.1, 0.1))
    right, wrong = ThreadReadings(11, life, True), ThreadReadings(12, life, True)
    whole = Burst(5, {10: [right, wrong], 20: [wrong], 30: [right]})
    assert whole.only({10: {11}, 20: {21}}) == Burst(5, {10: [right]})


def test_no_burst_of_all_ranks():
    assert summarize([], {3: 0}, 0, 0, 0.001) is None
    assert summarize([Burst(0, {})], {3: 0}, 0, 0, 0.001) is None
