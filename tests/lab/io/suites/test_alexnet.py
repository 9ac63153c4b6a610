"""The suite alexnet: what its trainings amount to, what it refuses, and a small run."""

from __future__ import annotations

import argparse

import pytest
from jobs import HANG_SECONDS

pytest.importorskip("matplotlib")
pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

from horovod_lab.io.suites.alexnet import results, suite
from horovod_lab.io.suites.alexnet.pictures import section
from horovod_lab.io.suites.alexnet.results import (
    BATCHES,
    BURST,
    DISK,
    FAST,
    MEMORY,
    NONE,
    PARTS,
    SLOW,
)
from horovod_lab.io.testbeds.crashing_storage import CrashingStorage
from horovod_lab.io.testbeds.testbed import NoTestbed
from horovod_lab.measuring import documents
from horovod_opt import cli

SMALL = ("--suite", "alexnet", "--files", 64, "--file-bytes", 5000, "--pixels", 16, "--width", 0.02,
         "--threads", 2, "--batch", 64, "--prefetch", 1, "--steps", 5, "--timeout", HANG_SECONDS)


def bench(*arguments: object) -> int:
    return cli.main(["io", "bench", *map(str, arguments)])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def of(part: str, seconds: float, threads: int = 8, batch: int = 64, prefetch: int = 1,
       saved: tuple[float, ...] = (), **traces: list[float]) -> dict:
    return {"round": 0, "part": part, "threads": threads, "batch": batch, "prefetch": prefetch,
            "seconds": seconds, "waited_seconds": seconds / 4, "saved_seconds": list(saved),
            "whole_seconds": seconds + 1, "variables_bytes": 177e6, "traces": traces}


def document(*measurements: dict) -> dict:
    settings = {"files": 768, "file_bytes": 12000, "pixels": 64, "width": 0.5, "threads": [1, 8],
                "batch": [16, 64], "prefetch": [0, 1]}
    return {"kind": "io-alexnet", "settings": settings, "measurements": list(measurements)}


INPUT = [*(of(part, seconds, threads, prefetch=prefetch, read=[2.0 * seconds, 4.0 * seconds])
           for part in (DISK, MEMORY) for threads, prefetch, seconds in (
               (1, 0, 9.0), (8, 0, 8.0), (1, 1, 6.0), (8, 1, 5.0))),
         of(BATCHES, 10.0, batch=16, prefetch=1), of(BATCHES, 20.0, batch=16, prefetch=0)]
SAVES = [of(NONE, 40.0), of(SLOW, 66.0, saved=(5.0, 5.0, 6.5, 5.0, 5.0), slow=[40.0] * 5),
         of(FAST, 47.0, saved=(1.0, 1.5, 1.0, 1.0, 1.0), slow=[150.0]),
         of(BURST, 50.0, saved=(2.0, 2.0, 2.0, 2.0, 2.0), fast=[150.0], slow=[40.0] * 5)]


def test_what_prefetching_hides():
    all_of_it = document(*INPUT)
    assert results.input_time(all_of_it, part=DISK, threads=1, prefetch=0) == 9
    assert results.input_time(all_of_it, "waiting", part=DISK, threads=1, prefetch=1) == 0.25
    assert results.unevenness(all_of_it) == pytest.approx(6 / 5)
    assert results.by_batch(all_of_it, 1) == 5 / 10  # the larger one is measured with the disk
    assert results.by_batch(all_of_it, 0) == 8 / 20
    assert results.read_speed(all_of_it, 1) == 15
    assert results.unevenness(document()) is None and results.by_batch(document(), 1) is None


def test_what_checkpoints_cost():
    all_of_it = document(*SAVES)
    assert results.over(all_of_it, SLOW, BURST, results.LOST) == 2.65
    assert results.over(all_of_it, BURST, FAST, results.SECONDS) == pytest.approx(50 / 47)
    assert results.targets(all_of_it) == [(
        "C3 time lost to checkpoints, BurstBuffer beside the slow storage: 1/2.6", "0.38", "yes")]
    assert results.targets(document({**SAVES[1], "failed": "x"}, SAVES[3]))[0][1:] == (
        "", "not measured")


def test_tables_and_the_picture():
    shown = section(document(*INPUT, *SAVES, {**of(MEMORY, 1.0), "failed": "x"}), targets=True)
    assert [len(grid.rows) for grid in shown.grids] == [8 + 4, 4, 1]
    assert shown.summary.endswith("1 jobs failed.")
    slow = shown.grids[1].rows[1]
    assert slow[0] == PARTS[SLOW] and slow[2:4] == ("26.5", "5.00")
    assert [picture.name for picture in shown.pictures] == ["io-alexnet"]
    assert not section(document(), targets=False).pictures


def test_the_plan():
    options = argparse.Namespace(rounds=2, threads=[1, 8], prefetch=[0, 1], batch=[16, 64],
                                 only=[*PARTS])
    jobs = [job for job in suite.plan(options) if job.round == 1]
    assert [sum(job.part == part for job in jobs) for part in PARTS] == [4, 4, 2, 1, 1, 1, 1]
    assert len({str(job) for job in jobs}) == len(jobs)


@pytest.mark.parametrize("arguments, message", [
    (("--files", 63), "--files 63 is less than a batch of 64; remedy: at least 64"),
    (("--file-bytes", 100), "--file-bytes 100; remedy: from 2000 to 4000000"),
    (("--steps", 4), "--steps 4 is less than a step for each of 5 checkpoints; remedy: at least 5"),
    (("--stand", "disk"), "suite alexnet has storages of its own; remedy: no --stand"),
    (("--only", "direct"), "--only: suite alexnet has no direct; remedy: some of disk,")])
def test_what_cannot_be_measured_is_refused(capfd, arguments, message):
    assert bench(*SMALL, *arguments) == 2
    assert message in capfd.readouterr().err


def test_a_small_run(tmp_path, capfd):
    """With checkpoints, where a storage for them can be made."""
    try:
        CrashingStorage.check()
        part = BURST
    except NoTestbed:
        part = NONE
    assert bench(*SMALL, "--only", part) == 0, capfd.readouterr().err
    each, = documents.load(tmp_path / "bench" / "io-alexnet.json", "io-alexnet")["measurements"]
    assert each["part"] == part
    assert each["seconds"] >= each["waited_seconds"] > 0 and each["variables_bytes"] > 1000
    assert (tmp_path / "bench" / "io-alexnet.png").stat().st_size > 0
    if part == BURST:
        assert len(each["saved_seconds"]) == 5
        assert sum(each["traces"][FAST]) > 0 and sum(each["traces"][SLOW]) > 0
