"""Where the ranks of the suite training run."""

from __future__ import annotations

import os

import pytest

from horovod_lab.bench.training import hosts
from horovod_lab.bench.training.hosts import Hosts, HostsError


def test_hosts_are_passed_to_horovodrun():
    assert Hosts().options() == []
    assert hosts.from_option("node1:4,node2").options() == ["-H", "node1:4,node2:1"]
    assert hosts.from_option("node1:4,node2:4").on_first(6) == 4
    assert Hosts().on_first(6) == 6


@pytest.mark.parametrize("text", ["", "a:0", "a:x", "a:1,,b:1", "a b"])
def test_what_is_no_list_of_hosts(text):
    with pytest.raises(HostsError, match="is no host; write NAME:SLOTS"):
        hosts.from_option(text)


def test_host_file(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# two\nnode1 slots=4\n\nnode2   slots=2 # the small one\nnode3\n")
    assert hosts.from_file(file).capacities == (("node1", 4), ("node2", 2), ("node3", 1))


@pytest.mark.parametrize("text, message", [
    ("", "names no host"), ("node1 slots=x\n", "line 1: 'node1 slots=x' is not NAME slots=N"),
    ("a\nb 4\n", "line 2: 'b 4' is not")])
def test_what_is_no_host_file(tmp_path, text, message):
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(HostsError, match=message):
        hosts.from_file(tmp_path / "hosts")


def test_no_host_file(tmp_path):
    with pytest.raises(HostsError, match="cannot be read"):
        hosts.from_file(tmp_path / "none")


@pytest.fixture
def scontrol(tmp_path, monkeypatch):
    """A command that answers as Slurm's, with three names."""
    script = tmp_path / "scontrol"
    script.write_text('#!/bin/sh\n[ "$*" = "show hostnames n[1-3]" ] && printf "n1\\nn2\\nn3\\n"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("tasks, capacities", [("6(x3)", (6, 6, 6)), ("6(x2),1", (6, 6, 1)),
                                               ("1,2,3", (1, 2, 3))])
def test_slurms_allocation(scontrol, tasks, capacities):
    allocation = hosts.from_slurm({"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_TASKS_PER_NODE": tasks})
    assert allocation.capacities == tuple(zip(("n1", "n2", "n3"), capacities))


def test_slurm_without_tasks(scontrol):
    with pytest.raises(HostsError, match="3 hosts, but tasks for 2.*remedy: name them"):
        hosts.from_slurm({"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_TASKS_PER_NODE": "6(x2)"})


def test_slurm_that_does_not_answer(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostsError, match="scontrol failed"):
        hosts.from_slurm({"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_TASKS_PER_NODE": "6(x3)"})
    assert hosts.from_slurm({}) == Hosts()
