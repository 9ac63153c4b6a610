"""The suite c10d: what it keeps, its tables and targets, and one small job."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("matplotlib")

from horovod_lab.bench.c10d import c10d_suite
from horovod_lab.bench.c10d.c10d_pictures import TARGETS, judge, section
from horovod_lab.measuring import documents, launch
from horovod_opt import cli

SIZES = ("1024", "65536", "33554432")


def measured(number: int, ranks: int, ours: tuple[float, ...], gloo: tuple[float, ...],
             images: dict[str, float] | None = None, idle: float = 0.1, hosts: int = 1) -> dict:
    job = {"round": number, "ranks": ranks, "hosts": hosts, "idle_percent": idle, "microseconds": {
        "hvdopt": dict(zip(SIZES, ours)), "gloo": dict(zip(SIZES, gloo))}}
    return {**job, "images_per_second": images} if images else job


IMAGES = {"hvdopt": 24.0, "gloo": 20.0, "no communication": 25.0}
MEASUREMENTS = [measured(0, 2, (8, 30, 8000), (160, 300, 30000), IMAGES),
                measured(1, 2, (10, 30, 9000), (60, 300, 28000), IMAGES, idle=0.5),
                measured(0, 4, (100, 100, 20000), (4000, 490, 70000)),
                measured(0, 2, (100, 200, 20000), (150, 300, 30000), hosts=2),
                {"round": 1, "ranks": 4, "hosts": 1, "failed": "killed"}]


def test_targets_are_judged_by_the_least_ratio_of_each_round():
    verdicts = {(target.what, target.ranks, target.last): judge(target, MEASUREMENTS)
                for target in TARGETS if target.hosts == 1}
    small = verdicts["allreduce", 2, 1 << 16]
    assert (small.value.low, small.value.high, small.met) == (6, 10, True)
    large = verdicts["allreduce", 2, 1 << 25]
    assert large.value.median == pytest.approx((30 / 8 + 28 / 9) / 2) and large.met
    failed = verdicts["allreduce", 4, 1 << 16]
    assert failed.met is False and "1 of 2 jobs failed" in failed.why
    assert verdicts["training", 2, 0].value.median == pytest.approx(1.2)
    assert verdicts["idle", 2, 0].met
    absent = judge(TARGETS[0], MEASUREMENTS[2:])
    assert absent.met is None and absent.why == "allreduce, 2 ranks on 1 host not measured"


def test_targets_of_hosts_are_judged_by_their_own_jobs():
    verdicts = {(target.ranks, target.last): judge(target, MEASUREMENTS)
                for target in TARGETS if target.hosts == 2}
    assert verdicts[2, 1 << 10].value.median == pytest.approx(1.5)
    assert verdicts[2, 1 << 25].value.median == pytest.approx(1.5)
    assert verdicts[4, 1 << 25].why == "allreduce, 4 ranks on 2 hosts not measured"


def test_tables_and_the_picture():
    page = section({"measurements": MEASUREMENTS})
    allreduces, trainings, targets = page.grids
    assert [row[:3] for row in allreduces.rows] == [
        (*place, backend) for place in (("2", "1"), ("4", "1"), ("2", "2"))
        for backend in ("hvdopt", "gloo")]
    assert [row[1] for row in trainings.rows] == list(IMAGES)
    assert len(targets.rows) == len(TARGETS) and len(page.pictures) == 1
    assert page.summary == "6 of 10 targets are met."
    assert not section({"measurements": MEASUREMENTS[-1:]}).pictures


def bench(*arguments: object) -> int:
    return cli.main(["bench", "c10d", *map(str, arguments)])


def test_jobs_are_kept_and_failures_said(tmp_path, monkeypatch, capsys):
    metrics = {name: MEASUREMENTS[0][name] for name in ("microseconds", "idle_percent")}
    answers = [json.dumps({"workload": "c10d", "metrics": metrics}), launch.JobFailed("killed")]
    commands = []

    def execute(of_ranks, _environ, _timeout):
        commands.append(of_ranks)
        if isinstance(answer := answers[len(commands) - 1], Exception):
            raise answer
        return answer

    monkeypatch.setattr(c10d_suite.launch, "execute", execute)
    assert bench("--ranks", 2, 9999, "--hosts", 1, "--rounds", 1, "--bytes", *SIZES,
                 "--output", tmp_path) == 2
    assert "1 of 2 jobs failed" in capsys.readouterr().err
    assert [len(of_ranks) for of_ranks in commands] == [2, 9999]
    assert "--train" not in commands[1][0], "only where each rank has a core"
    saved = documents.load(tmp_path / "c10d.json", "c10d")
    assert saved["measurements"][0]["microseconds"] == metrics["microseconds"]
    assert (tmp_path / "c10d.png").stat().st_size > 0


@pytest.mark.full
def test_a_small_run(tmp_path, capsys, need):
    need("torch")
    assert bench("--ranks", 2, "--rounds", 1, "--seconds", 0.1, "--bytes", 4, 600_000,
                 "--without-training", "--output", tmp_path) == 0
    jobs = documents.load(tmp_path / "c10d.json", "c10d")["measurements"]
    assert [job["hosts"] for job in jobs] == [1, 2]
    for job in jobs:
        times = job["microseconds"]
        assert {name: set(of_sizes) for name, of_sizes in times.items()} == {
            "hvdopt": {"4", "600000"}, "gloo": {"4", "600000"}}
        assert all(us > 0 for of_sizes in times.values() for us in of_sizes.values())


def test_bad_option(capsys):
    with pytest.raises(SystemExit) as exit:
        bench("--bytes", 1022)
    assert exit.value.code == 2
    assert "1022 bytes are no whole number of float32" in capsys.readouterr().err
