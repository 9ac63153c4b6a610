"""Testbed W: the data as it is, and nothing that is counted or limited."""

from __future__ import annotations

from horovod_lab.io.testbeds.testbed import Counters, WarmCache


def test_processes_of_the_warm_testbed_are_any(tmp_path):
    with WarmCache(tmp_path) as testbed:
        assert testbed.command(0, ("cat", "/a")) == ["cat", "/a"]
        testbed.begin()
        assert (testbed.memory, testbed.counters()) == (None, Counters())
        testbed.release()


def test_what_a_storage_did_in_a_while():
    since = Counters(requests=9, bytes=50).since(Counters(requests=4, bytes=20))
    assert since == Counters(requests=5, bytes=30)
