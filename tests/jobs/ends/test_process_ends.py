"""Processes that end past Python while tensors are on their way, and processes that fork."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

CODE = 7  # as in workers/ends/process_ends.py
FAULT = 14
SHUT_DOWN = "HorovodInternalError: Horovod has been shut down"
# What is freed is overwritten, so that whoever uses it afterwards notices.
FREED = {"MALLOC_PERTURB_": "165"}
TIMELINE_MIB = 152  # a queue in the state that is kept as long as the process
PRIVATE_MIB = """
import importlib, re, sys
def private():
    return int(re.search(r"RssAnon:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
importlib.import_module(sys.argv[1])
before = private()
importlib.import_module(f"horovod.{sys.argv[1]}")
print(private() - before)
"""


# A single rank does not reduce its gradients.
@pytest.mark.parametrize("controller, ranks, mode, states, how", [
    ("gloo", 1, "topo", ["warming up"], "exit"),
    ("gloo", 2, "topo", ["active"], "exit"),
    ("gloo", 2, "off", [], "exit"),
    ("mpi", 2, "topo", ["active"], "exit"),
    ("mpi", 2, "off", [], "exit"),
    ("mpi", 2, "topo", ["active"], "thread"),
    ("gloo", 2, "topo", ["active"], "lock"),
])
def test_exit_of_c(job, controller, ranks, mode, states, how):
    """It shuts Horovod down as Python's exit does: with its status, and an error for the others."""
    result = job("process_ends", how, ranks=ranks, controller=controller, started=True,
                 HOROVOD_OPT_MODE=mode, **FREED)
    assert not result.hung, result.output
    assert not result.survivors
    states_text, = (path.read_text() for path in result.folder.glob("leaves-*"))
    assert states_text == str(states)
    # What the launcher says of the rank: a signal would have another number.
    assert re.search(rf"Exit code: +{CODE}\b", result.output)
    # MPI's launcher may end the others before they can report.
    for report in result.reports().values():
        assert report["step"] == FAULT
        assert report["error"].startswith(SHUT_DOWN)
    if controller == "gloo":
        assert list(result.reports()) == list(range(ranks - 1))


@pytest.mark.parametrize("controller, ranks", [("gloo", 1), ("gloo", 2), ("mpi", 2)])
def test_forked_children(job, controller, ranks):
    """However they end, they do end, and the job does not notice."""
    result = job("process_ends", "fork", ranks=ranks, controller=controller, started=True,
                 HOROVOD_OPT_MODE="topo", **FREED).expect_success()
    *others, parent = result.of_ranks(ranks)
    children = "exit", "sys.exit", "shutdown", "ask"
    assert {name: parent[name] for name in children} == {name: CODE for name in children}
    for report in (*others, parent):
        assert (report["error"], report["step"]) == ("", 20)
        assert report["weights"] == parent["weights"]
        assert report["states"] == ["active" if ranks > 1 else "warming up"]


@pytest.mark.parametrize("framework", ["tensorflow", "torch"])
def test_a_timeline_that_is_not_used_takes_no_memory(framework):
    pytest.importorskip(framework)
    process = subprocess.run([sys.executable, "-c", PRIVATE_MIB, framework], check=True, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert 0 < float(process.stdout) < TIMELINE_MIB / 2
