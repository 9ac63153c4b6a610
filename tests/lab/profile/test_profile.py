"""Sampling of ranks, on a made-up /proc."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from events import Clock

from horovod_lab.profile import bursts as bursts_module
from horovod_lab.profile import sampler as sampler_module
from horovod_lab.profile.bursts import LENGTH, RESOLUTION, Bursts
from horovod_lab.profile.classes import (
    BACKGROUND,
    CLASSES,
    INPUT,
    MAIN,
    SCHEDULING,
    Classes,
)
from horovod_lab.profile.proc import TICKS, Proc
from horovod_lab.profile.ranks import MARK, Finder, RankProcess
from horovod_lab.profile.record import Ranks, cycle_time, describe
from horovod_lab.profile.sampler import Sampler

LIBRARY = "/x/site-packages/horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so"


class Tree:
    """A /proc whose counters a test sets."""

    def __init__(self, root: Path):
        self.root = root
        self.proc = Proc(str(root))

    def process(self, pid: int, parent: int = 1, maps: str = "", name: str = "python",
                **environ: object) -> None:
        self.thread(pid, pid, name, parent=parent)
        lines = "".join(f"{key}={value}\0" for key, value in environ.items())
        (self.root / str(pid) / "environ").write_text(lines)
        (self.root / str(pid) / "maps").write_text(f"7f00-7f01 r-xp 0 08:01 1   {maps}\n")

    def thread(self, pid: int, tid: int, name: str = "python", cpu: float = 0.0,
               delay: float = 0.0, system: float = 0.0, switches: tuple[int, int] = (0, 0),
               wakeups: int = 1, wait: str = "0", parent: int = 1) -> None:
        folder = self.root / str(pid) / "task" / str(tid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{cpu * 1e9:.0f} {delay * 1e9:.0f} {wakeups}\n")
        ticks = f"{(cpu - system) * TICKS:.0f} {system * TICKS:.0f}"
        (folder / "stat").write_text(f"{tid} ({name}) S {parent} 0 0 0 0 0 0 0 0 0 {ticks} 0 0\n")
        (folder / "status").write_text(
            f"Name:\t{name}\nCpus_allowed_list:\t0,4-6\nvoluntary_ctxt_switches:\t{switches[0]}\n"
            f"nonvoluntary_ctxt_switches:\t{switches[1]}\n")
        (folder / "wchan").write_text(wait)

    def vanish(self, pid: int, tid: int | None = None) -> None:
        shutil.rmtree(self.root / str(pid) / (f"task/{tid}" if tid else ""))


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "proc")


# /proc


@pytest.mark.parametrize(
    "name", ["plain", "two words", "(brackets)", ") R 1 (", "[kworker/0:1]", ""])
def test_stat_of_threads_with_any_name(tree, name):
    tree.thread(5, 6, name, cpu=3.5, system=1.25, parent=4)
    stat = tree.proc.stat(5, 6)
    assert (stat.name, stat.state, stat.parent) == (name, "S", 4)
    assert (stat.user, stat.system) == (2.25, 1.25)


def test_what_is_gone_reads_as_nothing(tree):
    assert tree.proc.processes() == tree.proc.threads(5) == tree.proc.cpus(5) == []
    assert tree.proc.schedstat(5, 5) is tree.proc.stat(5, 5) is tree.proc.switches(5, 5) is None
    assert tree.proc.environ(5) == {} and tree.proc.maps(5) == b"" == tree.proc.waits_in(
        5, 5).encode()


@pytest.mark.parametrize("file", ["schedstat", "stat", "status"])
@pytest.mark.parametrize("content", ["", "\n", "1", "1 ("])
def test_files_that_end_early_read_as_nothing(tree, file, content):
    """As those of a process that ends between open and read."""
    tree.thread(5, 5)
    Path(tree.proc.path(5, 5, file)).write_text(content)
    read = {"schedstat": tree.proc.schedstat, "stat": tree.proc.stat, "status": tree.proc.switches}
    assert read[file](5, 5) is None


def test_the_true_proc():
    proc = Proc()
    pid = os.getpid()
    assert proc.schedstat_is_kept()
    assert pid in proc.processes() and pid in proc.threads(pid)
    assert proc.stat(pid, pid).parent == os.getppid()
    assert set(proc.cpus(pid)) == os.sched_getaffinity(0)
    assert proc.switches(pid, pid) > (0, 0)
    assert proc.environ(pid) and b"python" in proc.maps(pid)


# Ranks


def test_ranks_are_found_by_mark_and_library_wherever_they_hang(tree):
    marked = {MARK: "job"}
    tree.process(10, 1, **marked)  # horovodrun
    tree.process(20, 1, OMPI_COMM_WORLD_RANK=1, OMPI_COMM_WORLD_SIZE=4, maps=LIBRARY, **marked)
    tree.process(21, 1, name="sh", HOROVOD_RANK=0, SLURM_PROCID=5, **marked)
    tree.process(22, 21, HOROVOD_RANK=0, SLURM_PROCID=5, maps=LIBRARY, **marked)
    tree.process(23, 22, name="pt_data_worker", HOROVOD_RANK=0, maps=LIBRARY, **marked)
    tree.process(30, 1, OMPI_COMM_WORLD_RANK=2, maps=LIBRARY, **{MARK: "another job"})
    tree.process(31, 1, OMPI_COMM_WORLD_RANK=3, maps=LIBRARY)
    finder = Finder(tree.proc, "job")
    finder.scan()
    assert {pid: (rank.rank, rank.children) for pid, rank in finder.ranks.items()} == {
        20: (1, []), 22: (0, [23])}
    assert finder.ranks[20].size == 4


def test_ranks_that_come_later(tree):
    """A process that has yet to start its program, one that has yet to load Horovod."""
    tree.process(10, 1)
    tree.process(11, 1, PMI_RANK=1, **{MARK: "job"})
    finder = Finder(tree.proc, "job")
    finder.scan()
    assert finder.ranks == {}
    tree.process(10, 1, PMI_RANK=0, maps=LIBRARY, **{MARK: "job"})
    tree.process(11, 1, PMI_RANK=1, maps=LIBRARY, **{MARK: "job"})
    finder.scan()
    assert {rank.rank for rank in finder.ranks.values()} == {0, 1}
    tree.vanish(10)
    finder.scan()
    assert set(finder.ranks) == {10, 11}


# Sampling


def sampled(tree, samples, processes=(RankProcess(10, {"OMPI_COMM_WORLD_RANK": "0"}),)) -> Sampler:
    """`samples`: what happens before each of them, one second apart from 100 s on."""
    sampler = Sampler(tree.proc)
    for number, happens in enumerate(samples):
        happens()
        sampler.sample(100.0 + number, processes)
    return sampler


def record(sampler: Sampler, **more) -> dict:
    return describe(Ranks(sampler, Classes()), 100.0, more.get("stats", {}), Bursts(Proc()))


def test_counters_go_on_threads_come_and_end(tree):
    def start():
        tree.process(10)
        tree.thread(10, 10, cpu=7.0, switches=(5, 50))
        tree.thread(10, 11, "hvd-background")

    def first():
        tree.thread(10, 10, cpu=7.5, system=0.25, switches=(6, 54), wakeups=2)
        tree.thread(10, 12, "tf_Compute", cpu=0.75, delay=0.5, wakeups=9)

    def second():
        tree.thread(10, 11, "hvd-background", cpu=1.0, wakeups=3)
        tree.vanish(10, 12)

    rank, = record(sampled(tree, [start, first, second, lambda: tree.vanish(10)]))["ranks"]
    assert rank["classes"][MAIN] == {
        "threads": 1, "user_seconds": 0.25, "system_seconds": 0.25, "voluntary_switches": 1,
        "involuntary_switches": 4, "run_delay_seconds": 0.0}
    assert rank["classes"][SCHEDULING]["user_seconds"] == 0.75
    assert rank["samples"]["seconds"] == [1.0, 2.0]
    assert rank["samples"]["cpu"][MAIN] == [0.5, 0.0]
    assert rank["samples"]["cpu"][BACKGROUND] == [0.0, 1.0]
    assert rank["samples"]["run_delay"][SCHEDULING] == [0.5, 0.0]
    assert rank["samples"]["involuntary"][MAIN] == [4.0, 0.0]
    assert rank["seconds"] == 2.0 and rank["cpus"] == [0, 4, 5, 6]
    assert rank["threads"] == {"@main": 1, "hvd-background": 1, "tf_Compute": 1}


def test_what_was_used_lately(tree):
    """As the live table shows it."""
    def work(number):
        def happens():
            tree.process(10)
            tree.thread(10, 10, cpu=5.0 + number, wakeups=number)
            if number == 3:
                tree.thread(10, 11, cpu=0.5)
        return happens

    rank, = sampled(tree, [work(number) for number in range(1, 5)]).ranks.values()
    main, new = rank.threads
    assert [main.since(sample).cpu for sample in (-1, 0, 1, 2, 3)] == [3.0, 3.0, 2.0, 1.0, 0.0]
    assert new.since(1).cpu == 0.0


def test_a_thread_that_vanishes_between_its_files(tree):
    def torn():
        tree.thread(10, 12, "tf_Compute", cpu=2.0, wakeups=2)
        Path(tree.proc.path(10, 12, "status")).unlink()

    def start():
        tree.process(10)
        tree.thread(10, 11, "hvd-background")
        tree.thread(10, 12, "tf_Compute", cpu=1.0)

    rank, = record(sampled(tree, [start, torn, lambda: None]))["ranks"]
    assert rank["classes"][SCHEDULING]["user_seconds"] == 0.0
    json.dumps(rank)


def test_worker_processes_belong_to_the_rank(tree):
    process = RankProcess(10, {}, children=[20])

    def start():
        tree.process(10)
        tree.thread(10, 11, "hvd-background")

    def work():
        tree.process(20, 10, name="pt_data_worker")
        tree.thread(20, 20, "pt_data_worker", cpu=0.5, wakeups=4)
        tree.thread(20, 21, "pt_data_worker", cpu=0.25, wakeups=4)

    rank, = record(sampled(tree, [start, work], [process]))["ranks"]
    assert rank["classes"][INPUT]["threads"] == 2
    assert rank["classes"][INPUT]["user_seconds"] == 0.75
    assert rank["rank"] == 0 and rank["threads"]["@child pt_data_worker"] == 2


def test_a_worker_that_outlives_its_rank_does_not_count(tree):
    tree.process(10)
    tree.thread(10, 11, "hvd-background")
    tree.process(20, 10)
    process = RankProcess(10, {}, children=[20])
    sampler = sampled(tree, [lambda: None, lambda: tree.vanish(10), lambda: None], [process])
    assert sampler.ranks[10].ended and sampler.ranks[10].last == 0


def test_upstreams_thread_is_known_in_hindsight(tree):
    """Also its time before it could be told apart."""
    def at(cpu, wait):
        def happens():
            tree.process(10)
            tree.thread(10, 11, cpu=cpu, wakeups=int(10 * cpu) + 1, wait=wait)
        return happens

    waits = ["0", "0", "futex_do_wait", "hrtimer_nanosleep"]
    rank, = record(sampled(tree, [at(number, wait) for number, wait in enumerate(waits)]))["ranks"]
    assert rank["samples"]["cpu"][BACKGROUND] == [1.0, 1.0, 1.0]
    assert rank["mode"] is None


def test_upstreams_thread_is_looked_for_among_those_that_wake_up_often(tree):
    tree.process(10)
    tree.thread(10, 10, wakeups=900)
    tree.thread(10, 11, wakeups=900)
    tree.thread(10, 12, wakeups=3)
    tree.thread(10, 13, "tf_Compute", wakeups=900)
    rank, = sampled(tree, [lambda: None]).ranks.values()
    looked = [[thread.tid for thread in rank.look_closely()] for _ in range(12)]
    assert looked == [[11]] * 10 + [[]] * 2
    tree.thread(10, 11, "hvd-background", wakeups=901)
    rank, = sampled(tree, [lambda: None]).ranks.values()
    assert rank.look_closely() == []


def test_memory_stays_bounded_and_nothing_is_lost(tree, monkeypatch):
    monkeypatch.setattr(sampler_module, "MOST_SAMPLES", 8)
    tree.process(10)
    tree.thread(10, 11, "hvd-background")

    def work(number):
        def happens():
            tree.thread(10, 10, cpu=0.1 * number, wakeups=number + 1)
            if number >= 30:
                tree.thread(10, 11, "hvd-background", cpu=0.5 * (number - 29), wakeups=number)
        return happens

    sampler = sampled(tree, [work(number) for number in range(41)])
    assert len(sampler.times) <= 8 and sampler.samples == 41
    assert (sampler.times[0], sampler.times[-1]) == (100.0, 140.0)
    assert sampler.times == sorted(set(sampler.times))
    rank, = record(sampler)["ranks"]
    assert rank["classes"][MAIN]["user_seconds"] == pytest.approx(4.0)
    assert rank["samples"]["cpu"][MAIN] == pytest.approx([0.1] * (len(sampler.times) - 1))
    assert rank["classes"][BACKGROUND]["user_seconds"] == pytest.approx(5.5)


# The document


def test_the_steady_part_is_the_second_half_with_background_threads(tree):
    def appears():
        tree.thread(10, 11, "hvd-background")

    def ends():
        tree.vanish(10, 11)

    def works():
        works.cpu += 0.25
        tree.thread(10, 10, cpu=works.cpu, wakeups=int(4 * works.cpu))

    works.cpu = 0.0
    tree.process(10)
    happens = [works, works, appears, *[works] * 8, ends, works, works]
    document = record(sampled(tree, happens))
    steady = document["steady"]
    assert (steady["from_seconds"], steady["to_seconds"]) == (6.0, 10.0)
    assert document["ranks"][0]["steady"]["seconds"] == 4.0
    assert document["ranks"][0]["steady"]["classes"][MAIN]["user_seconds"] == 1.0


def test_ranks_are_those_that_had_a_background_thread(tree):
    """Not the launcher, which loads Horovod's library as well, nor one that ended too early."""
    for pid in (10, 20, 30):
        tree.process(pid)
    tree.thread(20, 21, "hvd-background")
    tree.thread(30, 31, "hvd-background")
    environ = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
    processes = [RankProcess(10, {"OMPI_COMM_WORLD_RANK": "1"}), RankProcess(20, {}),
                 RankProcess(30, environ)]
    rank, = record(sampled(tree, [lambda: None] * 3, processes))["ranks"]
    assert (rank["rank"], rank["local_rank"], rank["pid"]) == (3, 1, 30)
    assert list(rank["classes"]) == list(CLASSES)


def test_nothing_was_found(tree):
    tree.process(10)
    assert record(sampled(tree, [lambda: None]))["ranks"] == []


def test_the_jobs_own_counters_are_joined(tree):
    tree.process(10)
    tree.thread(10, 11, "hvd-background")
    stats = {0: {"rank": 0, "mode": "topo+scp", "cycles": 5}, 1: {"rank": 1}}
    rank, = record(sampled(tree, [lambda: None] * 2), stats=stats)["ranks"]
    assert rank["stats"]["cycles"] == 5
    assert rank["mode"] == "topo+scp"


@pytest.mark.parametrize("environ, mode", [({}, "off"), ({"HOROVOD_OPT_MODE": "gs"}, "gs")])
def test_mode_without_counters(tree, environ, mode):
    tree.process(10)
    tree.thread(10, 11, "hvd-background")
    rank, = record(sampled(tree, [lambda: None] * 2, [RankProcess(10, environ)]))["ranks"]
    assert rank["mode"] == mode and rank["stats"] is None


@pytest.mark.parametrize("text, seconds", [(None, 0.001), ("5", 0.005), ("2.5", 0.0025),
                                           ("nonsense", 0.001)])
def test_cycle_time(text, seconds):
    assert cycle_time({} if text is None else {"HOROVOD_CYCLE_TIME": text}) == seconds


def test_a_burst_of_threads_that_are_there_and_that_are_not(tree, monkeypatch):
    monkeypatch.setattr(bursts_module, "time", Clock())
    tree.process(10)
    tree.thread(10, 11, "hvd-background", cpu=2.0, delay=0.5, wakeups=7)
    bursts = Bursts(tree.proc)
    assert not bursts.due(100.0, complete=False)
    assert not bursts.due(100.0, complete=True)
    assert bursts.due(110.0, complete=True)
    bursts.take({10: [11, 12], 20: [21]})
    burst, = bursts.bursts
    thread, = burst.threads[10]
    assert set(burst.threads) == {10} and not thread.runs_at_end
    first, last = thread.readings
    assert first[1:] == last[1:] == (2.0, 0.5, 7)
    assert last.time - first.time == pytest.approx(LENGTH, abs=2 * RESOLUTION)
