"""Ranks that stop before their first step, as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from horovod_opt.planning import plan_folder
from horovod_opt.settings import load

RANK = """
import signal
from horovod_opt.planning import plan_folder
signal.signal(signal.SIGTERM, lambda *_: print("it goes on", flush=True))
assert plan_folder.stops_before_step()
plan_folder.announce()
print("begun", flush=True)
input()
print("stops", flush=True)
plan_folder.stop()
print("it goes on", flush=True)
"""


@pytest.mark.parametrize("environ, expected", [
    ({}, False), ({"HOROVOD_OPT_PLANS_STOP": "1"}, False), ({"HOROVOD_OPT_PLANS": "x"}, False),
    ({"HOROVOD_OPT_PLANS": "x", "HOROVOD_OPT_PLANS_STOP": "0"}, False),
    ({"HOROVOD_OPT_PLANS": "x", "HOROVOD_OPT_PLANS_STOP": "1"}, True)])
def test_when_it_is_wanted(monkeypatch, environ, expected):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert plan_folder.stops_before_step() == expected
    load(os.environ)  # no misspelt settings


def test_ranks_are_killed_where_they_stop(tmp_path):
    environ = {**os.environ, "HOROVOD_OPT_PLANS": str(tmp_path), "HOROVOD_OPT_PLANS_STOP": "1"}
    ranks = [subprocess.Popen([sys.executable, "-c", RANK], env=environ, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        assert [rank.stdout.readline() for rank in ranks] == ["begun\n"] * 2
        assert plan_folder.count_stopped(tmp_path) == 0
        for rank in ranks:
            rank.stdin.write("\n")
            rank.stdin.flush()
            assert rank.stdout.readline() == "stops\n"
        while plan_folder.count_stopped(tmp_path) < 2:
            assert [rank.poll() for rank in ranks] == [None, None]
        plan_folder.kill(tmp_path)
        assert [rank.communicate()[0] for rank in ranks] == ["", ""]
        assert [rank.returncode for rank in ranks] == [-signal.SIGKILL] * 2
        plan_folder.kill(tmp_path)  # they have ended already
    finally:
        for rank in ranks:
            rank.kill()
