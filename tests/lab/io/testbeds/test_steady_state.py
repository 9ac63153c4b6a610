"""Jobs on testbed W: ranks that count together, what is observed, series that fail or hang."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import lmdb
import numpy as np
import psutil
import pytest
from events import Clock, wait_until
from jobs import HANG_SECONDS

from horovod_lab.io.data import data_folder
from horovod_lab.io.data.records import Records, WrongRecord
from horovod_lab.io.peers import PEERS
from horovod_lab.io.peers.stream import Stream
from horovod_lab.io.testbeds import observer, processes, steady_state, steady_state_rank
from horovod_lab.io.testbeds.rendezvous import Rendezvous
from horovod_lab.measuring import launch

RECORDS = Records(1000, 100)
MIB = 1 << 20


@pytest.fixture
def data(tmp_path):
    data_folder.write("lmdb", tmp_path / "lmdb", RECORDS)
    return tmp_path / "lmdb"


def run(folder: Path, python: str = sys.executable, timeout: float = HANG_SECONDS,
        records=RECORDS):
    return steady_state.run(PEERS["py-lmdb"], 2, folder, records, 10, 0.3, python, timeout)


def test_ranks_take_batches_for_the_time_that_is_given(data):
    result = run(data)
    assert result["samples"] == sum(result["by_rank"]) and min(result["by_rank"]) > 0
    assert result["samples"] % 10 == 0
    # No rank stops before its time is over, but one may be late.
    assert 0 < result["samples_per_second"] <= 1.001 * result["samples"] / 0.3
    assert (result["missing"], result["repeated"]) == (0, 0) and result["rl"] > 0.95
    assert result["processes"] == 2
    assert 2 * MIB < result["pss_file_bytes"] < result["pss_bytes"] < 1000 * MIB
    assert result["cpu_seconds_per_million"] >= 0


def test_what_ranks_and_the_observer_count_is_added_up(tmp_path, monkeypatch):
    """The samples of each rank by its own seconds, and CPU time of the interval by all samples."""
    clock, calls = Clock(), []

    def cpu_seconds(pids):
        calls.append((pids, clock.now))
        return 6.0 + 4.0 * len(calls)

    monkeypatch.setattr(observer, "time", clock)
    monkeypatch.setattr(observer, "cpu_seconds", cpu_seconds)
    monkeypatch.setattr(observer, "memory",
                        lambda pids: {"processes": len(pids), "Pss": 7, "Pss_File": 3})
    rendezvous = Rendezvous(tmp_path, None)
    rendezvous.publish("done.0", {"samples": 30, "seconds": 0.5})
    rendezvous.publish("done.1", {"samples": 10, "seconds": 1.0})
    assert observer._observe(rendezvous, [11, 12], 0.25, 2) == {
        "samples": 40, "samples_per_second": 60.0 + 10.0, "by_rank": [30, 10],
        "cpu_seconds_per_million": 4.0 / 40 * 1e6, "processes": 2, "pss_bytes": 7,
        "pss_file_bytes": 3}
    interval = rendezvous.wait_for("go")
    assert interval["end"] - interval["start"] == pytest.approx(0.25)
    assert calls == [([11, 12], pytest.approx(interval["start"])),
                     ([11, 12], pytest.approx(interval["end"]))]
    assert rendezvous.has("stop")


def test_packages_of_the_folder_that_it_is_run_in_are_not_taken(data, tmp_path, monkeypatch):
    package = tmp_path / "clone" / "horovod_opt"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('nothing is compiled here')")
    monkeypatch.chdir(package.parent)
    assert run(data)["samples"] > 0


def test_a_rank_that_fails_fails_the_series_with_its_message(tmp_path):
    with pytest.raises(launch.JobFailed, match=r"(?s)ended with exit code 1.*nowhere"):
        run(tmp_path / "nowhere")
    assert_nothing_is_left(tmp_path)


def test_a_pipeline_that_delivers_damaged_records_fails(data):
    with lmdb.open(str(data)) as environment, environment.begin(write=True) as transaction:
        value = transaction.get(b"%08d" % 3)
        transaction.put(b"%08d" % 3, value[:50] + b"?" + value[51:])
    with pytest.raises(launch.JobFailed, match=r"py-lmdb, rank [01]: .*number 3 .*checksum"):
        run(data)


def test_a_series_that_hangs_is_ended(data, tmp_path):
    python = tmp_path / "python"
    program = "import signal\nwhile True: signal.pause()"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{program}' \"$@\"")
    python.chmod(0o755)
    with pytest.raises(launch.JobFailed, match="killed: not finished after 0.5 s"):
        run(data, str(python), timeout=0.5)
    assert_nothing_is_left(tmp_path)


def assert_nothing_is_left(folder: Path) -> None:
    """Who was killed may need a moment to end."""
    wait_until(lambda: not any(str(folder) in part for process in psutil.process_iter(["cmdline"])
                          for part in process.info["cmdline"] or ()))


def test_a_rank_ends_when_the_benchmark_is_gone(data, tmp_path):
    """With a parent that is not its own, a rank is one that was left behind."""
    process = subprocess.run(
        [sys.executable, "-m", "horovod_lab.io.testbeds.steady_state_rank", "--peer", "py-lmdb",
         "--data", str(data), "--rendezvous", str(tmp_path), "--records", "1000", "--record-bytes",
         "100", "--batch", "10", "--rank", "0", "--ranks", "1", "--parent", "1"],
        capture_output=True, text=True, timeout=HANG_SECONDS)
    assert process.returncode == 1 and "has ended" in process.stderr


def test_what_is_told_is_heard_by_rank(tmp_path):
    rendezvous = Rendezvous(tmp_path, os.getppid())
    assert not rendezvous.has("go")
    for rank in (1, 0):
        rendezvous.publish(f"ready.{rank}", {"pid": rank})
    assert rendezvous.wait_for_all("ready", 2) == [{"pid": 0}, {"pid": 1}]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_rank_that_is_ahead_may_be_ended_by_one_that_has_stopped(tmp_path, is_stopped):
    rendezvous = Rendezvous(tmp_path, os.getppid())

    def batches():
        yield [b"a"]
        if is_stopped:
            rendezvous.publish("stop", None)
        raise ConnectionError("another rank has ended")

    if is_stopped:
        steady_state_rank.take_until_stop(batches(), rendezvous)
    else:
        with pytest.raises(ConnectionError, match="another rank has ended"):
            steady_state_rank.take_until_stop(batches(), rendezvous)


class Epochs(Stream):
    def __init__(self, *epochs):
        self._epochs = epochs

    def epoch(self, number):
        return iter(self._epochs[min(number, len(self._epochs) - 1)])


def test_epochs_follow_each_other_and_an_empty_one_is_an_error():
    batches = steady_state_rank.repeat_epochs(Epochs([], [[b"a"], [b"b"]], [[b"c"]], []))
    assert [next(batches) for _ in range(3)] == [[b"a"], [b"b"], [b"c"]]
    with pytest.raises(WrongRecord, match="epoch 3 has no batch"):
        next(batches)


@pytest.mark.parametrize("lead, samples, seconds", [
    (0.5, 15, 1.125), (0, 15, 1.125), (-0.5, 10, 1.25)])
def test_only_batches_in_the_interval_count(monkeypatch, lead, samples, seconds):
    """Of a second; a rank may be late."""
    clock = Clock()
    monkeypatch.setattr(steady_state_rank, "time", clock)

    def slow():
        while True:
            clock.sleep(0.375)
            yield [b""] * 5

    start = clock.now + lead
    counts = steady_state_rank.count(slow(), start, start + 1)
    assert counts == {"samples": samples, "seconds": seconds}


def test_batches_of_ranks_follow_each_other_round_robin():
    batches = observer.round_robin([np.arange(5), np.arange(10, 14)], [[2, 2, 1], [3, 1]])
    assert [batch.tolist() for batch in batches] == [[0, 1], [10, 11, 12], [2, 3], [13], [4]]


def test_what_is_missing_and_what_comes_twice():
    result = observer.shuffle([np.array([0, 1, 1]), np.array([2, 0])], [[2, 1], [2]], 5)
    assert (result["missing"], result["repeated"]) == (2, 2)


def test_the_shuffle_is_that_of_all_ranks_together():
    """Each rank in order, but their batches round robin: nearly in order. A permutation:
    complete."""
    in_order = observer.shuffle([np.arange(0, 4000, 2), np.arange(1, 4000, 2)],
                                [[1] * 2000, [1] * 2000], 4000)
    assert in_order["rl"] == 0
    permutation = np.random.default_rng(1).permutation(4000)
    complete = observer.shuffle([permutation[:2000], permutation[2000:]],
                                [[10] * 200, [10] * 200], 4000)
    assert complete["rl"] > 0.95


def test_what_each_rank_sees_is_measured_too():
    """A complete shuffle of each half of the data, one for each of two ranks: of the runs, as if
    they were classes, a rank has half. And ranks that take runs in turn."""
    halves = [np.random.default_rng(1).permutation(2000) + first for first in (0, 2000)]
    seen = observer.shuffle(halves, [[100] * 20] * 2, 4000)
    assert seen["rank_rl"] > 0.95
    # 81 of 400 runs, as none of 10 samples comes twice; 89 are right.
    assert seen["rank_classes"] == pytest.approx(0.91, abs=0.02)
    runs = observer.shuffle([np.arange(2000), np.arange(2000, 4000)], [[100] * 20] * 2, 4000)
    assert runs["rank_rl"] == 0 and runs["rank_classes"] < 0.15


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def cpu_seconds_of_this() -> float:
    """With that of children that have ended, in the kernel's words."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def test_cpu_time_is_that_of_children_too_also_of_those_that_ended():
    begin = cpu_seconds_of_this()
    before = processes.cpu_seconds([os.getpid()])
    child = multiprocessing.get_context("fork").Process(target=burn, args=(0.3,))
    child.start()
    child.join()
    burn(0.2)
    seconds = processes.cpu_seconds([os.getpid()]) - before
    ticks = 4 / os.sysconf("SC_CLK_TCK")  # four sums are rounded
    assert 0.5 - ticks <= seconds <= cpu_seconds_of_this() - begin + ticks


def test_memory_that_processes_share_counts_once():
    block = bytearray(os.urandom(1 << 20) * 64)
    context = multiprocessing.get_context("fork")
    over = context.Event()
    alone = processes.memory([os.getpid()])
    children = [context.Process(target=over.wait) for _ in range(2)]
    for child in children:
        child.start()
    try:
        together = processes.memory([os.getpid()])
    finally:
        over.set()
        for child in children:
            child.join()
    assert together["processes"] == alone["processes"] + 2
    assert len(block) < alone["Pss"] and together["Pss"] < alone["Pss"] + len(block)
    assert processes.memory([child.pid for child in children])["processes"] == 0


def test_sizes_of_smaps_are_bytes():
    text = ("55d8-7ffe ---p 00000000 00:00 0   [rollup]\nRss:  2048 kB\nPss:  1024 kB\n"
            "Pss_File:    12 kB\n")
    assert processes.parse_rollup(text) == {"Rss": 2 * MIB, "Pss": MIB, "Pss_File": 12 * 1024}


def test_ranks_know_nothing_of_the_job_that_the_benchmark_is_in():
    variables = steady_state.environ({"OMPI_COMM_WORLD_SIZE": "4", "WORLD_SIZE": "2",
                                      "HOROVOD_SIZE": "2", "PATH": "/bin"})
    assert variables["PATH"] == "/bin"
    assert not {"OMPI_COMM_WORLD_SIZE", "WORLD_SIZE", "HOROVOD_SIZE"} & set(variables)
