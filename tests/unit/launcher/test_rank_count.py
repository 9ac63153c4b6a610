"""How many ranks horovodrun starts without -np: from hosts, Slurm, GPUs or CPUs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from horovod_opt.launcher import rank_count


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Pretends to be one without GPUs and with so many CPUs, until told otherwise."""

    class Machine:
        environ = {"PATH": str(tmp_path / "bin")}

        def cpus(self, number: int) -> None:
            monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(number)))

        def nvidia_smi(self, script: str) -> None:
            command = tmp_path / "bin" / "nvidia-smi"
            command.parent.mkdir(exist_ok=True)
            command.write_text(f"#!/bin/sh\n{script}\n")
            command.chmod(0o755)

        def gpus(self, number: int) -> None:
            lines = "\\n".join(f"GPU {i}: NVIDIA H100 (UUID: GPU-{i})\\n  MIG 1g.10gb"
                               for i in range(number))
            self.nvidia_smi(f"[ $1 = -L ] && printf '{lines}\\n'")

        def choose(self, hosts: str | None = None, **environ: str) -> rank_count.Choice:
            return rank_count.choose(hosts, {**self.environ, **environ})

    monkeypatch.setattr(rank_count, "cpu_quota", lambda root: None)
    Machine().cpus(4)
    return Machine()


@pytest.mark.parametrize("cpus, ranks", [
    (1, 1), (2, 2), (3, 2), (4, 2), (7, 2), (8, 2), (11, 2), (12, 3), (64, 16),
])
def test_cpus(machine, cpus, ranks):
    machine.cpus(cpus)
    choice = machine.choose()
    assert choice.ranks == ranks
    assert choice.hosts is None
    assert "no GPU" in choice.reason
    assert f"{cpus} CPU" in choice.reason


def test_the_quota_counts_as_well(machine, monkeypatch):
    machine.cpus(64)
    monkeypatch.setattr(rank_count, "cpu_quota", lambda root: 12.5)
    assert machine.choose().ranks == 3
    monkeypatch.setattr(rank_count, "cpu_quota", lambda root: 0.5)
    assert machine.choose().ranks == 1


def test_gpus(machine):
    machine.gpus(3)
    assert machine.choose() == rank_count.Choice(3, "one for each GPU")


@pytest.mark.parametrize("visible, ranks", [
    ("0,1", 2), ("2", 1), ("GPU-1,GPU-2", 2), ("MIG-7", 1), ("1,-1,0", 1), ("0,4,1", 1),
    ("0, 1", 2),
])
def test_gpus_that_are_visible(machine, visible, ranks):
    machine.gpus(4)
    choice = machine.choose(CUDA_VISIBLE_DEVICES=visible)
    assert (choice.ranks, choice.reason) == (ranks, "one for each GPU")


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
def test_gpus_that_are_hidden(machine, visible):
    machine.gpus(4)
    machine.cpus(12)
    choice = machine.choose(CUDA_VISIBLE_DEVICES=visible)
    assert choice.ranks == 3
    assert "no GPU" in choice.reason


@pytest.mark.parametrize("script", [
    "exit 9", "echo No devices were found; exit 6", "echo GPU 0: lost; exit 15",
])
def test_nvidia_smi_without_a_gpu(machine, script):
    machine.nvidia_smi(script)
    assert "no GPU" in machine.choose(CUDA_VISIBLE_DEVICES="0").reason


def test_hosts_come_before_all_else(machine):
    machine.gpus(2)
    choice = machine.choose("h1:4,h2:2", SLURM_JOB_NODELIST="n1", SLURM_TASKS_PER_NODE="8")
    assert choice == rank_count.Choice(6, "the slots of the hosts h1:4,h2:2")


def test_hosts_without_slots_are_named(machine):
    with pytest.raises(SystemExit, match="'h2' of the hosts 'h1:4,h2' is not of the form"):
        machine.choose("h1:4,h2")


def test_slurm_comes_before_gpus(machine):
    machine.gpus(2)
    choice = machine.choose(SLURM_JOB_NODELIST="n[1-2]", SLURM_TASKS_PER_NODE="4(x2)")
    assert (choice.ranks, choice.hosts) == (8, "n1:4,n2:4")
    assert "Slurm" in choice.reason


@pytest.mark.parametrize("nodes, expanded", [
    ("n1", ["n1"]),
    ("n[1-3]", ["n1", "n2", "n3"]),
    ("n[08-10,12],login", ["n08", "n09", "n10", "n12", "login"]),
    ("a-b.c,r[1-2]s[3,05]", ["a-b.c", "r1s3", "r1s05", "r2s3", "r2s05"]),
    ("n[1,3]-ib", ["n1-ib", "n3-ib"]),
])
def test_nodes_of_slurm(nodes, expanded):
    assert rank_count.expand_nodes(nodes) == expanded


def test_tasks_of_slurm():
    assert rank_count.slurm_hosts("n[1-4]", "2,8(x2),1") == "n1:2,n2:8,n3:8,n4:1"


@pytest.mark.parametrize("tasks", ["2", "2(x3)", "many", ""])
def test_tasks_of_slurm_that_do_not_fit(tasks):
    with pytest.raises(SystemExit, match="use -np and -H"):
        rank_count.slurm_hosts("n[1-2]", tasks)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class TestQuota:
    def test_no_control_group(self, tmp_path):
        assert rank_count.cpu_quota(tmp_path) is None

    def test_version_2(self, tmp_path):
        write(tmp_path / "proc/self/cgroup", "0::/jobs/mine\n")
        top = tmp_path / "sys/fs/cgroup"
        write(top / "jobs/mine/cpu.max", "max 100000\n")
        assert rank_count.cpu_quota(tmp_path) is None
        write(top / "jobs/cpu.max", "350000 100000\n")
        assert rank_count.cpu_quota(tmp_path) == 3.5
        write(top / "jobs/mine/cpu.max", "100000 50000\n")
        assert rank_count.cpu_quota(tmp_path) == 2

    def test_version_2_in_a_container(self, tmp_path):
        """Which sees its own group at the top, whatever the path is outside."""
        write(tmp_path / "proc/self/cgroup", "0::/system/container-7\n")
        write(tmp_path / "sys/fs/cgroup/cpu.max", "600000 100000\n")
        assert rank_count.cpu_quota(tmp_path) == 6

    @pytest.mark.parametrize("folder", ["cpu,cpuacct", "cpu"])
    def test_version_1(self, tmp_path, folder):
        write(tmp_path / "proc/self/cgroup",
              "5:memory:/other\n4:cpu,cpuacct:/mine\n1:name=systemd:/mine\n")
        group = tmp_path / "sys/fs/cgroup" / folder / "mine"
        write(group / "cpu.cfs_period_us", "100000\n")
        write(group / "cpu.cfs_quota_us", "-1\n")
        assert rank_count.cpu_quota(tmp_path) is None
        write(group / "cpu.cfs_quota_us", "250000\n")
        assert rank_count.cpu_quota(tmp_path) == 2.5


def arguments(**options: object) -> argparse.Namespace:
    return argparse.Namespace(**{"num_proc": None, "min_num_proc": None, "hosts": None,
                                 "host_discovery_script": None, **options})


def test_says_what_was_chosen_and_why(machine, monkeypatch, capsys):
    monkeypatch.setattr(os, "environ", machine.environ)
    args = arguments()
    rank_count.complete(args, None)
    assert (args.num_proc, args.hosts) == (2, None)
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "horovodrun: 2 ranks: no GPU, and 4 CPUs; -np sets another number\n"


def test_slurm_names_the_hosts(machine, monkeypatch):
    monkeypatch.setattr(os, "environ", {"SLURM_JOB_NODELIST": "n[1-2]",
                                        "SLURM_TASKS_PER_NODE": "1(x2)"})
    args = arguments()
    rank_count.complete(args, None)
    assert (args.num_proc, args.hosts) == (2, "n1:1,n2:1")


@pytest.mark.parametrize("hosts", [{"host_discovery_script": "hosts.sh"}, {"hosts": "h1:8,h2:8"}])
def test_elastic_starts_with_the_fewest_ranks(machine, capsys, hosts):
    args = arguments(min_num_proc=3, **hosts)
    rank_count.complete(args, args.hosts)
    assert (args.num_proc, args.hosts) == (3, hosts.get("hosts"))
    assert "3 ranks: --min-np" in capsys.readouterr().err


def test_elastic_needs_a_number(machine):
    with pytest.raises(SystemExit, match="needs -np or --min-np"):
        rank_count.complete(arguments(host_discovery_script="hosts.sh"), None)
