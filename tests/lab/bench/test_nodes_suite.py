"""The suite nodes: its jobs, targets and tables, and what it does where no hosts can be played.

No job of these tests uses Horovod: what a benchmark measures is not a test.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys

import pytest
from events import MINUTE, wait_until
from selection import hosts_or_skip

pytest.importorskip("matplotlib")

from horovod_lab.bench import worker_job
from horovod_lab.bench.nodes import nodes_options, nodes_suite
from horovod_lab.bench.nodes.nodes_pictures import section
from horovod_lab.bench.nodes.results import cells, verdicts
from horovod_lab.bench.nodes.rows import (
    CELLS,
    LAYOUTS,
    OFF_GLOO,
    PAIR,
    PAIR_SLOW,
    TOPO,
    TOPO_BF16,
    TOPO_GLOO,
    WAYS,
    WORKLOADS,
    Layout,
    order,
)
from horovod_lab.bench.nodes.targets import TARGETS
from horovod_lab.bench.worker_job import LIMIT, WORKERS, YIELDING
from horovod_lab.measuring import documents, launch
from horovod_lab.measuring.present import save_pictures
from horovod_lab.measuring.virtual_hosts import (
    SEARCH,
    NoHosts,
    VirtualHosts,
    namespaces,
    processes_in,
    remove_leftovers,
)
from horovod_opt import cli

YIELD = YIELDING.name


def parse(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    nodes_options.add(parser.add_subparsers())
    return parser.parse_args(["nodes", *argv])


def test_every_cell_is_run_in_every_series_and_rounds_are_complete():
    options = parse("--rounds", "2")
    jobs = order(options.only, options.layouts, options.rounds)
    expected = {(workload, layout, way) for (workload, layout), ways in CELLS.items()
                for way in ways}
    for number in (0, 1):
        series_of_cell = [(job.workload.name, job.layout, job.way.name) for job in jobs
                          if job.round == number]
        assert len(series_of_cell) == len(expected) and set(series_of_cell) == expected
    assert [job.round for job in jobs] == sorted(job.round for job in jobs)


def test_cells_can_be_chosen():
    options = parse("--only", "resnet50,idle", "--layouts", "2x1@1000,4x2", "--rounds", "1")
    jobs = order(options.only, options.layouts, options.rounds)
    assert {(job.workload.name, str(job.layout)) for job in jobs} == {
        ("resnet50", "2 nodes of 1, 1000 Mbit/s"), ("resnet50", "4 nodes of 2")}


def test_every_target_has_one_bound_and_is_measured():
    assert len(TARGETS) == 12
    for target in TARGETS:
        assert (target.least is None) != (target.most is None), str(target)
        assert set(target.needs) <= set(CELLS[target.workload, target.layout]), str(target)
        assert bool(target.over) == (target.of != "value"), str(target)
    for workload in WORKLOADS.values():
        assert (WORKERS / workload.program[0]).is_file(), workload.name
    assert set(LAYOUTS) == {"2x1", "1x2", "2x1@1000", "4x1", "2x2", "4x2"}


@pytest.mark.parametrize("argv, message", [
    (["--only", "resnet"], "'resnet' is not one of resnet50, large, small, idle"),
    (["--layouts", "3x1"], "'3x1' is not one of 2x1, 1x2, 2x1@1000, 4x1, 2x2, 4x2"),
    (["--rounds", "0"], "'0' is not a whole number of at least 1"),
    (["--seconds", "-1"], "'-1' is not a number of seconds above 0"),
])
def test_bad_option(argv, message, capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main(["bench", "nodes", *argv])
    assert exit.value.code == 2 and message in capsys.readouterr().err


# Targets


def entry(workload: str, layout: Layout, series: str, value: float, number: int = 0,
          **more: float) -> dict:
    job = {"round": number, "workload": workload, "layout": layout.name, "series": series,
           WORKLOADS[workload].key: value, **more}
    if workload == "resnet50":
        job.setdefault("step_seconds", 8 / value)
    return job


def judge_all(measurements: list[dict]) -> dict[tuple[str, str], tuple]:
    """(value, met, why) by series and target, of a single cell."""
    [cell] = cells(measurements)
    return {(verdict.target.series, str(verdict.target)): (
        verdict.value and round(verdict.value.median, 3), verdict.met, verdict.why)
        for verdict in verdicts(cell)}


def test_training_is_compared_with_the_better_of_both_and_with_none():
    values = {LIMIT: 50, YIELD: 40, OFF_GLOO: 38, TOPO: 44, TOPO_GLOO: 43}
    verdicts_met = judge_all([entry("resnet50", PAIR, *item) for item in values.items()])
    assert verdicts_met == {(TOPO, "≥ 1.1 x best"): (1.1, True, ""), (TOPO, "≥ 0.88 x alone"): (
        0.88, True, ""), (TOPO_GLOO, "≥ 1.15 x off, Gloo"): (1.132, False, "")}


def test_pairs_are_of_a_round():
    four = Layout(4, 1)
    jobs = [entry("resnet50", four, name, value, number) for number, values in enumerate(
        [{YIELD: 10, OFF_GLOO: 9, TOPO: 11}, {YIELD: 100, OFF_GLOO: 120, TOPO: 121}])
        for name, value in values.items()]
    # The median of 1.1 and 1.21, over the one whose own pairs with the other are the larger.
    [(value, is_met, why)] = judge_all(jobs).values()
    assert (value, is_met, why) == (round((11 / 9 + 121 / 120) / 2, 3), True, "")


def test_times_and_shares_are_bounded_from_above():
    assert judge_all([entry("small", PAIR, TOPO, 151)]) == {
        (TOPO, "≤ 150 us"): (151, False, "")}
    assert judge_all([entry("large", PAIR, TOPO, 16_000)]) == {
        (TOPO, "≤ 16000 us"): (16_000, True, "")}
    assert judge_all([entry("idle", PAIR, TOPO_GLOO, 0.2)]) == {
        (TOPO, "≤ 0.3 % of a core"): (None, None, "topo not measured"),
        (TOPO_GLOO, "≤ 0.3 % of a core"): (0.2, True, "")}


def test_the_ideal_step_is_the_longer_of_computing_and_sending():
    def slow(alone: float) -> dict:
        return judge_all([
            entry("resnet50", PAIR_SLOW, LIMIT, 8 / alone, step_seconds=alone),
            entry("resnet50", PAIR_SLOW, TOPO, 8, step_seconds=1.0, step_bytes=100e6),
            entry("resnet50", PAIR_SLOW, TOPO_BF16, 12.8, step_seconds=0.625)])

    # 100 MB are 0.8 s at 1 Gbit/s.
    assert slow(0.5) == {(TOPO, "≤ 1.1 x ideal"): (1.25, False, ""),
                         (TOPO_BF16, "≥ 1.6 x float32"): (1.6, True, "")}
    assert slow(0.95)[TOPO, "≤ 1.1 x ideal"] == (round(1 / 0.95, 3), True, "")


def test_a_failed_job_is_a_target_not_met():
    jobs = [entry("small", PAIR, TOPO, 100),
            {"round": 1, "workload": "small", "layout": "2x1", "series": TOPO, "failed": "killed"}]
    assert judge_all(jobs) == {(TOPO, "≤ 150 us"): (100, False, "topo failed")}


# What is shown


def full() -> list[dict]:
    return [entry(workload, layout, name, 10 + 3 * index + number, number, step_bytes=1e6)
            for (workload, layout), names in CELLS.items() for index, name in enumerate(names)
            for number in (0, 1)]


def test_tables_and_picture(tmp_path):
    page = section(json.loads(json.dumps(
        {**documents.new("nodes", ["horovod-opt"]), "measurements": full()})))
    answers = [verdict.met for cell in cells(full()) for verdict in verdicts(cell)]
    assert len(answers) == len(TARGETS) and None not in answers
    assert f"{answers.count(True)} of 12 targets met" in page.summary
    rows = {(row[0], row[1]): dict(zip(page.grids[0].columns, row)) for row in page.grids[0].rows}
    assert rows["ResNet50, images/s", "2 nodes of 1"][TOPO] == "19.5\n19.0-20.0"
    assert rows["allreduce of 1 KiB, us", "2 nodes of 1"][LIMIT] == ""
    [path] = save_pictures(page.pictures, tmp_path)
    assert path.name == "nodes.png" and path.read_bytes().startswith(b"\x89PNG")


# The command


def nodes(*arguments: object) -> int:
    return cli.main(["bench", "nodes", *map(str, arguments)])


QUICK = ("--only", "small", "--rounds", 1, "--seconds", 0.5)


def test_without_hosts_it_says_why(monkeypatch, tmp_path, capsys):
    def refuse(*_: object) -> None:
        raise NoHosts("hosts of their own need sshd, the rights of root")

    monkeypatch.setattr(nodes_suite, "VirtualHosts", refuse)
    assert nodes(*QUICK, "--output", tmp_path) == 2
    assert ("this machine can play no other nodes: hosts of their own need sshd, the rights of root"
            in capsys.readouterr().err)
    assert nodes("--only", "idle", "--layouts", "4x2", "--output", tmp_path) == 2
    assert "none of idle is measured in 4x2" in capsys.readouterr().err


class Fake:
    """Hosts of which none is played; what they were asked for is in `hosts_made`."""

    hosts_made: list[tuple] = []
    stopped = 0
    path = "/keys:/usr/bin"

    def __init__(self, folder, number=2, megabits=None):
        self.hosts_made.append((number, megabits))
        self.names = [f"h{index}" for index in range(1, number + 1)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def on_first(self, function, *arguments):
        return function(*arguments)

    def stop_jobs(self):
        type(self).stopped += 1


def test_jobs_run_on_the_hosts_and_are_kept(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(nodes_suite, "VirtualHosts", Fake)
    monkeypatch.setattr(Fake, "hosts_made", [])
    calls = []

    def run(series, program, ranks, timeout, launcher):
        calls.append((series.mode, series.environ()["PATH"].split(":")[1], launcher, ranks))
        if len(calls) == 2:
            raise launch.JobFailed("killed: not finished after 9 s")
        counters = {"data_bytes": 1000.0, "agreements": 0}
        return {"metrics": {"microseconds": 100.0 * len(calls), "steps": 10}, "mpi": "Open MPI",
                "per_rank": {"counters": [counters, counters], "memory_mib": [1.0, 1.0]}}

    monkeypatch.setattr(worker_job, "run", run)
    before = Fake.stopped
    assert nodes(*QUICK, "--output", tmp_path) == 2  # a job failed
    assert Fake.stopped == before + 4
    assert Fake.hosts_made == [(1, None), *[(2, None)] * 4]
    assert calls[0] == ("off", "/keys", ("--mpi", "-H", "h1:1,h2:1", "--disable-cache"), 2)
    assert [(mode, launcher[0]) for mode, _, launcher, _ in calls] == [
        (WAYS[name].series.mode, WAYS[name].controller) for name in CELLS["small", PAIR]]
    saved = documents.load(tmp_path / "nodes.json", "nodes")
    assert [job.get("microseconds") for job in saved["measurements"]] == [100, None, 300, 400]
    assert saved["measurements"][0]["step_bytes"] == 100
    assert {target["met"] for target in saved["targets"]} == {False}
    assert nodes(*QUICK, "--output", tmp_path) == 0
    assert "kept: 3 of 4 jobs" in capsys.readouterr().err


# Virtual hosts


@pytest.fixture
def hosts(tmp_path):
    with hosts_or_skip(tmp_path, 3, megabits=100) as hosts:
        yield hosts


def test_virtual_hosts_know_and_reach_each_other(hosts):
    assert hosts.names == ["h1", "h2", "h3"]
    process = hosts.on_first(
        subprocess.run, ["ssh", "-o", "StrictHostKeyChecking=no", "h3", "hostname"],
        env={"PATH": hosts.path}, capture_output=True, text=True, timeout=MINUTE)
    assert process.stdout.strip() == "h3", process.stderr
    assert hosts.received()["h3"] > 0


def test_virtual_hosts_leave_nothing_behind(tmp_path):
    with hosts_or_skip(tmp_path, 2) as hosts:
        processes = hosts._all_processes()
        assert len(processes) == 2
    assert not any(process.is_running() for process in processes)
    assert not [space for space in namespaces() if space.endswith(f"-{os.getpid()}")]


KILLED = """
import os, pathlib, signal, sys
from horovod_lab.measuring.virtual_hosts import VirtualHosts
VirtualHosts(pathlib.Path(sys.argv[1]), 2)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def other_space():
    """A namespace that somebody else has made."""
    space, environ = f"other-{os.getpid()}", {**os.environ, "PATH": SEARCH}
    subprocess.run(["ip", "netns", "add", space], check=True, env=environ)
    yield space
    subprocess.run(["ip", "netns", "delete", space], check=True, env=environ)


def has_ended(process: subprocess.Popen) -> bool:
    """It is there still, as nobody has waited for it."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def test_virtual_hosts_of_a_killed_process_end_when_others_begin(hosts, other_space, tmp_path):
    folder = tmp_path / "killed"
    folder.mkdir()
    killed = subprocess.Popen([sys.executable, "-c", KILLED, folder])
    of_this, of_killed = f"-{os.getpid()}", f"-{killed.pid}"
    # Until it is waited for, other tests leave its hosts alone, too.
    wait_until(lambda: has_ended(killed))
    spaces = [space for space in namespaces() if space.endswith(of_killed)]
    processes = [process for space in spaces for process in processes_in(space)]
    assert (len(spaces), len(processes)) == (3, 2)
    remove_leftovers()
    assert set(spaces) < set(namespaces()) and all(process.is_running() for process in processes)
    assert killed.wait() == -signal.SIGKILL
    remove_leftovers()
    wait_until(lambda: not any(process.is_running() for process in processes))
    wait_until(lambda: not any(space.endswith(of_killed) for space in namespaces()))
    spaces = [space for space in namespaces() if space.endswith(of_this)]
    assert len(spaces) == 5 and other_space in spaces


@pytest.mark.parametrize("number", [0, 255])
def test_too_many_virtual_hosts(number, tmp_path):
    with pytest.raises(ValueError, match=f"{number} virtual hosts: 1 to 254 are possible"):
        VirtualHosts(tmp_path, number)
