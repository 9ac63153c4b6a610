"""When the simulated parallel file system answers, and what it counts."""

from __future__ import annotations

import pytest

from horovod_lab.io.storage.timing_model import (
    RequestCounts,
    Speed,
    TimingModel,
    WriteCounts,
    WriteTimingModel,
)

SPEED = Speed(bandwidth=1000.0, delay=0.5, going_back=2.0)


def test_requests_wait_together_but_their_bytes_come_one_after_the_other():
    timing = TimingModel(SPEED)
    assert timing.read(10.0, "a", 0, 100) == 10.5  # 0.1 s of bytes, within the delay
    assert timing.read(10.0, "b", 0, 1000) == pytest.approx(11.1)
    assert timing.read(10.0, "c", 0, 100) == pytest.approx(11.2)
    assert timing.metadata(10.0) == 10.5
    assert timing.read(20.0, "d", 0, 100) == 20.5  # what nobody used in between is lost


def test_going_back_in_a_file_keeps_all_waiting():
    timing = TimingModel(SPEED)
    for file, offset in (("a", 0), ("a", 100), ("b", 0), ("a", 200)):
        timing.read(0.0, file, offset, 100)
    assert timing.counts.inversions == 0
    assert timing.read(0.0, "a", 100, 100) == pytest.approx(2.5)
    assert timing.read(0.0, "b", 100, 100) == pytest.approx(2.6)
    assert timing.read(0.0, "a", 100, 100) == pytest.approx(2.7)  # the same again is not back
    assert timing.counts == RequestCounts(requests=7, bytes=700, inversions=1)


def test_counts_begin_anew_but_where_files_were_read_is_known():
    timing = TimingModel(SPEED)
    timing.read(0.0, "a", 500, 100)
    timing.metadata(0.0)
    timing.begin()
    assert timing.counts == RequestCounts()
    timing.read(0.0, "a", 400, 100)
    assert timing.counts == RequestCounts(requests=1, bytes=100, inversions=1)


def test_after_the_measurement_nothing_waits_and_all_is_still_counted():
    timing = TimingModel(SPEED)
    timing.read(0.0, "a", 500, 10_000)
    timing.release()
    assert timing.read(1.0, "a", 0, 100) == timing.metadata(1.0) == 1.0
    assert timing.counts == RequestCounts(requests=2, bytes=10_100, inversions=1,
                                          metadata_requests=1)


def test_what_is_written_shares_the_speed_and_is_counted_for_itself():
    timing = WriteTimingModel(SPEED)
    assert timing.write(10.0, 1000) == pytest.approx(11.0)
    assert timing.read(10.0, "a", 0, 1000) == pytest.approx(12.0)
    assert timing.sync(10.0) == pytest.approx(12.0)  # when all before it has arrived
    assert timing.write(20.0, 100) == 20.5 and timing.sync(30.0) == 30.5
    assert timing.write(40.0, 0) == 40.5  # at the beginning again: writing does not go back
    assert timing.counts == WriteCounts(requests=1, bytes=1000, write_requests=3,
                                        written_bytes=1100, syncs=2)
    timing.begin()
    assert timing.counts == WriteCounts()
    timing.release()
    assert timing.write(50.0, 10_000) == timing.sync(50.0) == 50.0
