"""What the parts of a run on a GPU make of the ranks' reports."""

from __future__ import annotations

import json
from pathlib import Path

import part_cores
import part_ddp
import part_devices
import part_images
import part_input
import part_nccl
import part_scripts
import pytest
from gpu_builds import NCCL, PLAIN
from gpu_table import FAILED, NOT_RUN, PASSED
from jobs import Job
from part_gradients import comparison_rows
from part_images import Config
from part_setup import NoTime, Setup, problem


def outcomes(rows) -> dict[str, str]:
    return {row.what: row.outcome for row in rows}


def list_failures(rows) -> list[str]:
    return [row.what for row in rows if row.outcome != PASSED]


def job(folder: Path, *reports: dict | None, code: int = 0, hung: bool = False,
        survivors: tuple[str, ...] = (), output: str = "") -> Job:
    """`reports`: by rank; None: it has none."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, report in enumerate(reports):
        if report is not None:
            (folder / f"rank-{rank}.json").write_text(json.dumps(report))
    return Job(folder, code, output, hung, [*survivors])


def setup(folder: Path, build: str = PLAIN, **changes) -> Setup:
    values = {"gpus": 1, "cores": 16, "steps": 100, "seconds": 1.0, "rounds": 1, "batch": 4,
              "until": float("inf"), **changes}
    return Setup(build, folder, **values)


# Jobs


@pytest.mark.parametrize("how, message", [
    ({}, ""), ({"hung": True}, "no end; see "), ({"code": 3}, "exit status 3, 2 of 2 reports"),
    ({"survivors": ("1 python",)}, "1 processes are left")])
def test_a_job_that_went_wrong(how, message, tmp_path):
    text = problem(job(tmp_path, {}, {}, **how), 2)
    assert text.startswith(message)
    assert bool(text) == bool(message)


def test_a_report_is_missing(tmp_path):
    assert problem(job(tmp_path, {}, None), 2).startswith("exit status 0, 1 of 2 reports")


def test_no_job_begins_after_the_end(tmp_path):
    with pytest.raises(NoTime):
        setup(tmp_path, until=0.0).job("name", "own_cores", ranks=1)


# 1: late gradients


def late(**changes) -> dict:
    off = {"digest": "a", "inexact": 0, "error": 0.25, "early": 0, "planned": 0}
    topo = {**off, "early": 90, "planned": 97}
    report = {"off": off, "topo": topo, "same": True}
    for name, value in changes.items():
        mode, _, measure = name.partition("_")
        if measure:
            report[mode] = {**report[mode], measure: value}
        else:
            report[mode] = value
    return report


@pytest.mark.parametrize("ranks", [2, 4])
def test_late_gradients_are_right(ranks):
    rows = [*comparison_rows(ranks, 100, [late()] * ranks)]
    assert list_failures(rows) == []
    assert ("2 ranks: topo is off, bit for bit" in outcomes(rows)) == (ranks == 2)


@pytest.mark.parametrize("changes, message", [
    ({"same": False}, "2 ranks: topo is off, bit for bit"),
    ({"topo_digest": "b"}, "2 ranks, topo: all ranks have the same bits"),
    ({"off_inexact": 1}, "2 ranks, off: sums of integers are exact"),
    ({"topo_error": 1.01}, "2 ranks, topo: error, of (ranks - 1) 2^-23 sum(|x|)"),
    ({"topo_planned": 87}, "2 ranks: planned steps"),
    ({"topo_early": 9}, "2 ranks: the thread that hands over did not wait for the data"),
])
def test_one_rank_is_wrong(changes, message):
    assert list_failures(comparison_rows(2, 100, [late(), late(**changes)])) == [message]


def test_with_four_ranks_other_bits_than_in_off_are_right():
    assert list_failures(comparison_rows(4, 100, [late(same=False)] * 4)) == []


# 2: NCCL


LOG = """\
node:412:437 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.2<0>
node:412:437 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 1 cudaDev 0 - Init COMPLETE
node:412:437 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f00 recvbuff 0x7f00 count 2400 \
datatype 7 op 0 root 0 comm 0x55d0 [nranks=1] stream 0x5500
node:412:437 [0] NCCL INFO Broadcast: opCount 1 sendbuff 0x7f00 recvbuff 0x7f00 count 1 \
datatype 0 op 0 root 0 comm 0x55d0 [nranks=1] stream 0x5500
node:412:438 [0] NCCL INFO AllReduce: opCount 2 sendbuff 0x7f00 recvbuff 0x7f00 count 9 \
datatype 7 op 0 root 0 comm 0x77d0 [nranks=1] stream 0x5500 task 3 globalrank 0
"""


def test_log_of_nccl():
    assert part_nccl.read_log(LOG) == [part_nccl.Allreduce(437, 2400, "0x55d0"),
                                       part_nccl.Allreduce(438, 9, "0x77d0")]


@pytest.mark.parametrize("counts, buckets, steps, right", [
    ([7, 3, 2, 3, 2], [3, 2], 2, True), ([3, 2, 3, 2], [3, 2], 2, True),
    ([3, 2, 2, 3], [3, 2], 2, False), ([2, 3, 2], [3, 2], 2, False), ([3, 2], [2, 3], 1, False),
    ([], [], 1, False)])
def test_order_of_the_last_steps(counts, buckets, steps, right):
    calls = [part_nccl.Allreduce(1, count, "0x1") for count in counts]
    assert part_nccl.ends_with_steps(calls, buckets, steps) is right


def line(thread: int, count: int, communicator: str = "0xa") -> str:
    return (f"node:1:{thread} [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count "
            f"{count} datatype 7 op 0 root 0 comm {communicator} [nranks=1] stream 0x5\n")


REPORT = {"wrong": 0, "planned": 37, "reason": "", "ahead_ms": 8.0, "buckets": [20, 30],
          "in_order": 36, "by_background": 40, "thread": 5}
STEP = line(5, 20) + line(5, 30) + line(5, 3)
ORDER, THREAD, COMMUNICATORS = (
    "NCCL is called in the plan's order", "NCCL is called from one thread of a rank",
    "communicators of a rank, negotiated sums included")


@pytest.mark.parametrize("log, wrong", [
    (STEP * 40, []),
    (STEP * 39 + line(5, 30) + line(5, 20), [ORDER]),
    (STEP * 39 + line(6, 3) + STEP, [THREAD]),
    (STEP.replace("0xa", "0xb", 1) + STEP * 40, [COMMUNICATORS]),
    ("", [ORDER, THREAD, COMMUNICATORS]),
])
def test_what_nccl_was_asked_for(log, wrong, tmp_path):
    (tmp_path / "nccl.1").write_text(log)
    (tmp_path / "nccl.2").write_text("node:2:2 [0] NCCL INFO of a process without allreduces\n")
    assert list_failures(part_nccl.nccl_order_rows([REPORT], tmp_path)) == wrong


@pytest.mark.parametrize("changes, wrong", [
    ({}, []), ({"in_order": 27}, ["sums come in the plan's order"]),
    ({"by_background": 39}, ["tensors are read by one thread"])])
def test_order_without_nccl(changes, wrong):
    assert list_failures(part_nccl.memory_order_rows([REPORT, {**REPORT, **changes}])) == wrong


@pytest.mark.parametrize("changes, wrong", [
    ({}, []), ({"wrong": 1}, ["torus: sums are right"]),
    ({"planned": 27}, ["torus: planned steps"])])
def test_planned_sums_are_right(changes, wrong):
    assert list_failures(part_nccl.right("torus", [REPORT, {**REPORT, **changes}])) == wrong


def test_why_nothing_is_planned_is_told():
    rows = [*part_nccl.right("torus", [{**REPORT, "planned": 0, "reason": "it is on a GPU"}])]
    assert rows[1].value == "0 of 40; it is on a GPU"


def test_nccl_refuses_two_ranks_on_a_gpu(tmp_path):
    output = "NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000"
    row = part_nccl.two_ranks_on_one(job(tmp_path, code=1, output=output))
    assert (row.outcome, row.value) == (NOT_RUN, "NCCL refuses it: Duplicate GPU detected")
    result = job(tmp_path, code=1, output=output, survivors=("1 python",))
    assert part_nccl.two_ranks_on_one(result).outcome == FAILED


def test_nccl_takes_two_ranks_on_a_gpu(tmp_path):
    well = {"planned": REPORT}
    assert part_nccl.two_ranks_on_one(job(tmp_path / "1", well, well)).outcome == PASSED
    wrong = {"planned": {**REPORT, "wrong": 2}}
    row = part_nccl.two_ranks_on_one(job(tmp_path / "2", well, wrong))
    assert (row.outcome, row.value) == (FAILED, "2 of 40 steps are wrong")


@pytest.mark.parametrize("gpus, jobs", [
    (1, [("order", 1, True), ("settings", 1, False), ("two-on-one", 2, False)]),
    (4, [("order", 4, True), ("settings", 4, False)]),
    (0, [("order", 2, False), ("settings", 2, False)])])
def test_jobs_of_part_2(gpus, jobs, tmp_path, monkeypatch):
    ran = []

    def run(self, name, worker, *arguments, ranks, controller="mpi", **environment):
        ran.append((name, ranks, "NCCL_DEBUG" in environment))
        return job(tmp_path / name, hung=True)

    monkeypatch.setattr(Setup, "job", run)
    rows = [*part_nccl.rows(setup(tmp_path, NCCL, gpus=gpus))]
    assert ran == jobs
    assert {row.outcome for row in rows} == {FAILED}


# 3: both kinds of memory


def mix(**changes) -> dict:
    return {"step": part_devices.STEPS, "wrong": 0, "outcome": "no error",
            "states": ["active"] * 3, **changes}


@pytest.mark.parametrize("changes, outcome", [
    ({}, PASSED), ({"wrong": 1}, FAILED), ({"states": ["active", "ready", "active"]}, FAILED),
    ({"step": 3}, FAILED)])
def test_mixed(changes, outcome, tmp_path):
    assert part_devices.works("", job(tmp_path, mix(), mix(**changes)), 2).outcome == outcome


SHUT_DOWN = {"step": part_devices.END, "outcome": "Horovod has been shut down. This was caused by"}


@pytest.mark.parametrize("changes, how, outcome", [
    ({}, {}, PASSED), ({"outcome": "no error"}, {}, FAILED), ({"step": 40}, {}, FAILED),
    ({"wrong": 1}, {}, FAILED), ({"states": []}, {}, FAILED), ({}, {"code": 0}, FAILED),
    ({}, {"hung": True}, FAILED), ({}, {"survivors": ("1 python",)}, FAILED)])
def test_killed(changes, how, outcome, tmp_path):
    ended = job(tmp_path, mix(**{**SHUT_DOWN, **changes}), None, **{"code": 1, **how})
    assert part_devices.ends("", ended, 2).outcome == outcome


def test_the_killed_rank_has_reported(tmp_path):
    ended = job(tmp_path, mix(**SHUT_DOWN), mix(**SHUT_DOWN), code=1)
    assert part_devices.ends("", ended, 2).outcome == FAILED


@pytest.mark.parametrize("build, gpus, ranks", [
    (PLAIN, 0, 2), (PLAIN, 1, 2), (NCCL, 1, 2), (NCCL, 4, 4)])
def test_jobs_of_part_3(build, gpus, ranks, tmp_path, monkeypatch):
    ran = []

    def run(self, name, worker, *arguments, ranks, controller="mpi", **environment):
        ran.append((controller, ranks, arguments[-1]))
        assert environment["HOROVOD_OPT_MODE"] == "topo"
        return job(tmp_path / name, hung=True)

    monkeypatch.setattr(Setup, "job", run)
    rows = [*part_devices.rows(setup(tmp_path, build, gpus=gpus))]
    assert ran == [("mpi", ranks, -1), ("gloo", ranks, -1), ("gloo", ranks, part_devices.END)]
    assert [row.outcome for row in rows] == [FAILED] * 3


# 4: cores


@pytest.mark.parametrize("cores, ranks", [(2, 1), (3, 1), (4, 2), (6, 2), (8, 2), (16, 4), (20, 5)])
def test_ranks_by_cores(cores, ranks):
    assert part_cores.ranks_for(cores) == ranks


@pytest.mark.parametrize("mode, cores, background, workers, outcome", [
    ("scp", 2, [1], [0], PASSED), ("scp", 2, [1], [0, 1], FAILED),
    ("topo+scp", 4, [2, 3], [0, 1], FAILED),  # two cores
    ("auto", 4, [3], [0, 1, 2], PASSED), ("auto", 4, [0, 1, 2, 3], [0, 1, 2, 3], FAILED),
    ("auto", 2, [0, 1], [0, 1], PASSED), ("auto", 2, [1], [0], FAILED)])
def test_whose_cores(mode, cores, background, workers, outcome, monkeypatch):
    monkeypatch.setattr(part_cores, "count_cores", len)
    report = {"background": background, "others": workers}
    assert part_cores.apart("", mode, [report] * 2, cores).outcome == outcome


def test_one_core_is_too_few(tmp_path):
    (row,) = part_cores.rows(setup(tmp_path, cores=1))
    assert (row.outcome, row.value) == (NOT_RUN, "mode scp needs two cores, and there is one")


# 5: images/s


def images(rates: dict[Config, list[float]], *unplanned: Config) -> dict:
    return {"measured": [{"config": vars(config), "images_per_second": values}
                         for config, values in rates.items()],
            "unplanned": [vars(config) for config in unplanned]}


def test_images_by_mode(tmp_path):
    configs = [Config("off"), Config("topo")]
    report = images({configs[0]: [90.0, 100.0, 400.0], configs[1]: [120.0, 110.0, 5.0]})
    rows = [*part_images.rate_rows("5", "ResNet50", configs, job(tmp_path, report, report), 2)]
    assert [(row.what, row.value) for row in rows] == [
        ("ResNet50: off", "100.0 images/s, 1.00 of off"),
        ("ResNet50: topo", "110.0 images/s, 1.10 of off")]
    assert list_failures(rows) == []


def test_images_of_gradients_that_one_rank_did_not_plan(tmp_path):
    config = Config("topo")
    first, second = images({config: [1.0]}), images({config: [1.0]}, config)
    rows = [*part_images.rate_rows("5", "ResNet50", [config], job(tmp_path, first, second), 2)]
    assert list_failures(rows) == ["ResNet50: topo"]


def test_best_size_of_a_bucket(tmp_path):
    rates = {Config("topo", "bfloat16", size): [100.0 - abs(size - 32)]
             for size in part_images.SIZES}
    row = part_images.best_size("", "bfloat16", job(tmp_path, images(rates)), 1)
    assert row.value.startswith("1: 69, 2: 70,")
    assert row.value.endswith("128: 4; most with 32")


@pytest.mark.parametrize("build, gpus, ranks, sizes", [
    (NCCL, 1, 1, True), (NCCL, 4, 4, True), (PLAIN, 1, 2, False)])
def test_job_of_part_5(build, gpus, ranks, sizes, tmp_path, monkeypatch):
    ran = []

    def run(self, name, worker, *arguments, ranks, **environment):
        ran.append((ranks, {config["bucket_mib"] for config in json.loads(arguments[-1])}))
        return job(tmp_path / name, hung=True)

    monkeypatch.setattr(Setup, "job", run)
    rows = [*part_images.rows(setup(tmp_path, build, gpus=gpus))]
    assert ran == [(ranks, {0, *(part_images.SIZES if sizes else ())})]
    assert {row.outcome for row in rows} == {FAILED}


# 6: scripts


def trained(**changes) -> dict:
    return {"digest": "a", "caught": 0, "finite": True, "same": True, "planned": 12, **changes}


def scripts(**changes) -> dict:
    return {"halves": {"average": 9, "sum": 0, "alone": 0},
            "in_off": [trained(), trained(digest="b")], "rows": trained(),
            "channels_last": trained(digest="b"), "failed": trained(digest="c", caught=1),
            "asynchronous": trained(), "wrong": 0, **changes}


@pytest.mark.parametrize("changes, failures", [
    ({}, 0), ({"halves": {"average": 0, "sum": 0, "alone": 0}}, 0),
    ({"halves": {"average": 0, "sum": 1, "alone": 0}}, 1),
    ({"halves": {"average": 0, "sum": 0, "alone": 1}}, 1), ({"wrong": 1}, 1),
    ({"rows": trained(digest="b")}, 2), ({"channels_last": trained()}, 1),
    ({"failed": trained()}, 1), ({"failed": trained(caught=1, same=False)}, 1),
    ({"asynchronous": trained(digest="b")}, 1), ({"asynchronous": trained(planned=0)}, 1)])
def test_scripts(changes, failures):
    rows = [*part_scripts.comparison_rows(2, [scripts(), scripts(**changes)])]
    assert len(list_failures(rows)) == failures


def test_with_four_ranks_other_bits_than_in_off_are_right_in_scripts():
    reports = [scripts(rows=trained(digest="x"), channels_last=trained(digest="y"))] * 4
    assert list_failures(part_scripts.comparison_rows(4, reports)) == []


def test_nccl_may_refuse_two_ranks_on_one_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(Setup, "job", lambda *_, **__: job(
        tmp_path, code=1, output=f"... {part_nccl.TWO_ON_ONE} ..."))
    (row,) = part_scripts.rows(setup(tmp_path, NCCL))
    assert row.outcome == NOT_RUN


# 7: input


@pytest.mark.parametrize("thread, workers, failures", [
    (98, 50, 0), (50, 97, 0), (96, 90, 1), (90, 96, 1)])
def test_pinned_memory_is_to_be_almost_as_fast_as_synthetic(thread, workers, failures):
    rates = {"synthetic": 100.0, "ordinary memory, a thread": 10.0,
             "pinned memory, a thread": thread, "pinned memory, 14 workers": workers}
    rows = [*part_input.rate_rows(rates)]
    assert len(rows) == 4 and len(list_failures(rows)) == failures


# 8: DistributedDataParallel


@pytest.mark.parametrize("topo, unplanned, outcome", [
    ([9.0, 12.0, 11.0], [], PASSED), ([9.0, 9.5, 11.0], [], FAILED),
    ([11.0] * 3, ["net: topo"], FAILED)])
def test_topo_is_to_be_as_fast_as_ddp(topo, unplanned, outcome):
    by_way = {part_ddp.DDP: [10.0] * 3, "off": [1.0] * 3, part_ddp.TOPO: topo}
    row = part_ddp.judged("net, 1 ranks", "net", by_way, unplanned)
    assert row.outcome == outcome
    assert "off: 1.00 steps/s, 0.10" in row.value


@pytest.mark.parametrize("module", [part_scripts, part_input, part_ddp])
def test_a_job_of_the_last_parts_fails(module, tmp_path, monkeypatch):
    monkeypatch.setattr(Setup, "job", lambda *_, **__: job(tmp_path, hung=True))
    assert [row.outcome for row in module.rows(setup(tmp_path))] == [FAILED]
