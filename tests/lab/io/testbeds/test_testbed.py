"""Stand W: the data as it is, and nothing that is counted or limited."""

from __future__ import annotations

from horovod_lab.io.testbeds.stand import Counters
from horovod_lab.io.testbeds.warm import Warm


def test_processes_of_the_warm_stand_are_any(tmp_path):
    with Warm(tmp_path) as stand:
        assert stand.command(0, ("cat", "/a")) == ["cat", "/a"]
        stand.begin()
        assert (stand.memory, stand.counters()) == (None, Counters())
        stand.release()
