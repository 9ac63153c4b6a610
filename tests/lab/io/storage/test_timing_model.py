"""When the simulated parallel file system answers, and what it counts."""

from __future__ import annotations

import pytest

from horovod_lab.io.testbeds.pace import Counted, Pace, Speed
from horovod_lab.io.testbeds.write_pace import CountedWrites, WritePace

SPEED = Speed(bandwidth=1000.0, delay=0.5, going_back=2.0)


def test_requests_wait_together_but_their_bytes_come_one_after_the_other():
    pace = Pace(SPEED)
    assert pace.read(10.0, "a", 0, 100) == 10.5  # 0.1 s of bytes, within the delay
    assert pace.read(10.0, "b", 0, 1000) == pytest.approx(11.1)
    assert pace.read(10.0, "c", 0, 100) == pytest.approx(11.2)
    assert pace.metadata(10.0) == 10.5
    assert pace.read(20.0, "d", 0, 100) == 20.5  # what nobody used in between is lost


def test_going_back_in_a_file_keeps_all_waiting():
    pace = Pace(SPEED)
    for file, offset in (("a", 0), ("a", 100), ("b", 0), ("a", 200)):
        pace.read(0.0, file, offset, 100)
    assert pace.counted.inversions == 0
    assert pace.read(0.0, "a", 100, 100) == pytest.approx(2.5)
    assert pace.read(0.0, "b", 100, 100) == pytest.approx(2.6)
    assert pace.read(0.0, "a", 100, 100) == pytest.approx(2.7)  # the same again is not back
    assert pace.counted == Counted(requests=7, bytes=700, inversions=1)


def test_counts_begin_anew_but_where_files_were_read_is_known():
    pace = Pace(SPEED)
    pace.read(0.0, "a", 500, 100)
    pace.metadata(0.0)
    pace.begin()
    assert pace.counted == Counted()
    pace.read(0.0, "a", 400, 100)
    assert pace.counted == Counted(requests=1, bytes=100, inversions=1)


def test_after_the_measurement_nothing_waits_and_all_is_still_counted():
    pace = Pace(SPEED)
    pace.read(0.0, "a", 500, 10_000)
    pace.release()
    assert pace.read(1.0, "a", 0, 100) == pace.metadata(1.0) == 1.0
    assert pace.counted == Counted(requests=2, bytes=10_100, inversions=1, metadata_requests=1)


def test_what_is_written_shares_the_speed_and_is_counted_for_itself():
    pace = WritePace(SPEED)
    assert pace.write(10.0, 1000) == pytest.approx(11.0)
    assert pace.read(10.0, "a", 0, 1000) == pytest.approx(12.0)
    assert pace.sync(10.0) == pytest.approx(12.0)  # when all before it has arrived
    assert pace.write(20.0, 100) == 20.5 and pace.sync(30.0) == 30.5
    assert pace.write(40.0, 0) == 40.5  # at the beginning again: writing does not go back
    assert pace.counted == CountedWrites(requests=1, bytes=1000, write_requests=3,
                                         written_bytes=1100, syncs=2)
    pace.begin()
    assert pace.counted == CountedWrites()
    pace.release()
    assert pace.write(50.0, 10_000) == pace.sync(50.0) == 50.0
