"""The suite overhead: interleaving, comparison, launching, reading results, reporting.

No job of these tests uses Horovod: what a benchmark measures is not a test.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from events import wait_until
from jobs import HANG_SECONDS
from rich.console import Console

pytest.importorskip("matplotlib")
import idle

from horovod_lab.bench import worker_job
from horovod_lab.bench.overhead import overhead_options, results, workloads
from horovod_lab.bench.overhead.overhead_pictures import picture
from horovod_lab.bench.worker_job import BASE, LIMIT, Series, parse_result
from horovod_lab.measuring import launch, machine
from horovod_lab.measuring.comparison import Spread, compare, difference, interleave, ratio
from horovod_lab.measuring.present import rich_table, save_pictures
from horovod_opt import cli


def test_every_series_runs_once_a_round_and_first_once_in_as_many_rounds_as_series():
    order = list(interleave(["none", "off", "gs"], rounds=4))
    by_round = [[series for number, series in order if number == n] for n in range(4)]
    assert by_round == [["none", "off", "gs"], ["off", "gs", "none"], ["gs", "none", "off"],
                        ["none", "off", "gs"]]


def test_spread_is_the_median_and_the_extremes():
    assert Spread.of([5.0, 1.0, 2.0, 4.0]) == Spread(median=3.0, low=1.0, high=5.0, n=4)


def test_comparison_pairs_values_of_the_same_round():
    # The machine became twice as slow in round 1: each ratio is 2 nevertheless.
    assert compare({0: 20.0, 1: 10.0}, {0: 10.0, 1: 5.0}, ratio) == Spread(2.0, 2.0, 2.0, 2)


def test_comparison_leaves_out_rounds_in_which_one_of_the_pair_failed():
    assert compare({0: 3.0, 2: 9.0}, {1: 1.0, 2: 8.0}, difference) == Spread(1.0, 1.0, 1.0, 1)
    assert compare({0: 3.0}, {1: 1.0}, difference) is None


def test_ratio_to_nothing_is_no_number():
    assert compare({0: 3.0, 1: 4.0}, {0: 0.0, 1: 2.0}, ratio) == Spread(2.0, 2.0, 2.0, 1)


def run_python(*codes: str, timeout: float = HANG_SECONDS) -> str:
    return launch.execute([[sys.executable, "-c", code] for code in codes], os.environ, timeout)


def test_jobs_of_several_processes_run_beside_each_other(tmp_path):
    meet = ("import pathlib, time; pathlib.Path({mine!r}).touch()\n"
            "while not pathlib.Path({other!r}).exists(): time.sleep(0.01)")
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    run_python(meet.format(mine=a, other=b), meet.format(mine=b, other=a))


def test_a_failing_job_shows_the_end_of_its_stderr():
    with pytest.raises(launch.JobFailed) as failure:
        run_python("import sys\nfor i in range(40): print('line', i, file=sys.stderr)\nsys.exit(3)")
    text = str(failure.value)
    assert text.startswith("ended with exit code 3")
    assert text.endswith("line 39") and "line 24\n" not in text and "line 25\n" in text


# Writes a process's number to a file, which appears when it is whole, and never ends.
SAY_AND_STAY = """
import os, pathlib, signal, subprocess
def say_and_stay(pid, file):
    draft = pathlib.Path(file + ".unfinished")
    draft.write_text(str(pid))
    draft.rename(file)
    while True:
        signal.pause()
"""


def test_a_failing_process_ends_the_others_of_its_job(tmp_path):
    other = tmp_path / "other"
    with pytest.raises(launch.JobFailed, match="exit code 1"):
        run_python(f"{SAY_AND_STAY}\nsay_and_stay(os.getpid(), {str(other)!r})",
                   f"import pathlib, time\nwhile not pathlib.Path({str(other)!r}).exists():\n"
                   "    time.sleep(0.01)\nraise SystemExit(1)")
    wait_until(lambda: not Path("/proc", other.read_text()).exists())


def test_a_hanging_job_is_killed_with_all_that_it_started(tmp_path, monkeypatch):
    """Its time is over when it hangs, however long it takes to get there."""
    child = tmp_path / "child"
    monkeypatch.setattr(launch, "time", SimpleNamespace(
        monotonic=lambda: 1000.0 if child.exists() else 0.0, sleep=time.sleep))
    with pytest.raises(launch.JobFailed, match="killed: not finished after 3 s"):
        # Like an MPI launcher, it starts its child in a session of its own.
        run_python(f"{SAY_AND_STAY}\n"
                   "process = subprocess.Popen(['sleep', 'infinity'], start_new_session=True)\n"
                   f"say_and_stay(process.pid, {str(child)!r})", timeout=3)
    wait_until(lambda: not Path("/proc", child.read_text()).exists())


def test_a_missing_launcher_is_a_failed_job():
    with pytest.raises(launch.JobFailed, match="could not be started.*no-such-launcher"):
        launch.execute([["no-such-launcher"]], os.environ, 10)


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>: ", "[0] ", "[1,0]<stdout>:"])
def test_result_is_found_behind_the_launchers_prefix_and_messages(prefix):
    line = json.dumps({"workload": "chain", "metrics": {"microseconds": 1.5}})
    assert parse_result(f"a warning {{}}\n{prefix}{line}\nbye\n")["metrics"] == {
        "microseconds": 1.5}


def test_result_ends_where_mpich_puts_the_next_prefix():
    line = '{"workload": "chain", "metrics": {"microseconds": 1.5}}'
    assert parse_result(f"[0] {line}[0] \n")["metrics"] == {"microseconds": 1.5}


def test_no_result_is_a_failed_job():
    with pytest.raises(launch.JobFailed, match="ended without a result.*bye"):
        parse_result("bye\n")


def test_series_sets_its_mode_and_finds_its_own_launcher_and_mpirun(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    series = Series("gs", "gs", python="/env/bin/python")
    assert series.environ()["HOROVOD_OPT_MODE"] == "gs"
    assert series.environ()["PATH"] == "/env/bin:/usr/bin"
    [command] = series.commands(["idle.py", "--seconds", "1"], 4)
    assert command[:4] == ["/env/bin/horovodrun", "-np", "4", "/env/bin/python"]


def test_plain_upstream_gets_no_settings_of_ours(monkeypatch):
    monkeypatch.setenv("HOROVOD_OPT_NBCS_YIELDS", "3")
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "2")
    environ = Series("plain", mode=None).environ()
    assert not [name for name in environ if name.startswith("HOROVOD_OPT_")]
    assert environ["HOROVOD_CYCLE_TIME"] == "2"


def test_without_communication_there_is_a_process_a_rank_and_no_launcher():
    commands = Series("none", communicates=False, python="python").commands(["idle.py"], 3)
    assert [command[0] for command in commands] == ["python"] * 3
    assert [command[-4:] for command in commands] == [
        ["--rank", str(rank), "--ranks", "3"] for rank in range(3)]


def parse(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    overhead_options.add(parser.add_subparsers())
    return parser.parse_args(["overhead", *argv])


def names_of_jobs(*argv: str, cores: int = 2) -> list:
    return [(number, workload, ranks, series.name) for number, workload, ranks, series
            in workloads.jobs(parse(*argv), cores)]


def test_an_interrupted_benchmark_has_measured_everything_equally_often():
    jobs = names_of_jobs("--rounds", "2")
    half = len(jobs) // 2
    assert {job[0] for job in jobs[:half]} == {0} and {job[0] for job in jobs[half:]} == {1}
    assert {job[1:] for job in jobs[:half]} == {job[1:] for job in jobs[half:]}


def test_only_training_runs_at_every_number_of_ranks():
    training = {(workload, ranks) for workload in workloads.TRAINING for ranks in (2, 4)}
    assert {(workload, ranks) for _, workload, ranks, _ in names_of_jobs()} == {
        ("idle", 2), ("chain", 2), ("small", 2), *training}
    assert {ranks for _, _, ranks, _ in names_of_jobs("--quick")} == {2}


def test_scp_runs_where_every_rank_has_two_cores():
    assert {ranks for *_, ranks, series in names_of_jobs(cores=4) if series == "scp"} == {2}
    assert {ranks for *_, ranks, series in names_of_jobs(cores=8) if series == "scp"} == {2, 4}
    assert not [job for job in names_of_jobs("--modes", "nbcs+scp", cores=3) if "scp" in job[3]]


def test_off_and_the_limit_are_measured_whatever_the_modes():
    only = ("--only", "resnet50", "--modes")
    assert {job[3] for job in names_of_jobs(*only, "nbcs")} == {LIMIT, BASE, "nbcs"}
    assert {job[3] for job in names_of_jobs(*only, "off")} == {LIMIT, BASE}


def test_what_is_mpi_s_share_of_a_gain_can_be_seen():
    assert {job[3] for job in names_of_jobs("--only", "chain", cores=8)} == {
        LIMIT, BASE, "off, yielding", "gs", "gs, not yielding", "nbcs", "nbcs, not yielding", "scp",
        "topo", "topo+scp", "auto"}


def test_peers_are_measured_where_there_are_any():
    series = {workload: {job[3] for job in names_of_jobs("--only", workload, "--modes", "off")}
              for workload in workloads.SECONDS}
    common = {LIMIT, BASE}
    assert series.pop("resnet50_torch") == {*common, "DDP", "DDP, static graph"}
    assert all(names == common for names in series.values())


@pytest.mark.parametrize("argv, message", [
    (["--only", "idle,resnet"], "'resnet' is not one of idle, chain, small, resnet50"),
    (["--rounds", "0"], "'0' is not a whole number of at least 1"),
    (["--modes", "gs,fast"], "'fast' is not a mode"),
    (["--modes", "gs-yields"], "'gs-yields' is not a mode"),
    (["--modes", "gs,+yield"], "a mode is missing"),
    (["--plain", "/no/python"], "/no/python is no Python with a horovodrun beside it"),
])
def test_bad_option(argv, message, capsys):
    with pytest.raises(SystemExit):
        parse(*argv)
    assert message in capsys.readouterr().err


def test_thread_cpu_time_grows_by_the_work_done():
    begin = time.thread_time()
    before = idle.cpu_seconds(threading.get_native_id())
    deadline = time.thread_time() + 0.2
    while time.thread_time() < deadline:
        pass
    used = idle.cpu_seconds(threading.get_native_id()) - before
    assert 0.15 < used < time.thread_time() - begin + 0.02  # it is noted at ticks


def test_an_ended_thread_used_no_more_cpu():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    while thread.native_id in idle.thread_ids():  # Python joins before the kernel is done
        time.sleep(0.01)
    assert idle.cpu_seconds(thread.native_id) == 0.0


def test_cpu_model_of_cpuinfo():
    assert machine.cpu_model("processor\t: 0\nmodel name\t: AMD EPYC\n") == "AMD EPYC"
    whole = ("processor\t: 0\ncpu family\t: 23\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n"
             "flags\t\t: fpu avx avx2\n\nprocessor\t: 1\nmodel name\t: another\n")
    assert machine.cpu_model(whole) == "AMD EPYC, family 23, model 1, avx2"
    assert machine.cpu_model("Hardware\t: a board\n") == platform.machine()


def entry(series: str, number: int, images: float, ranks: int = 2) -> dict:
    return {"workload": "resnet50", "ranks": ranks, "series": series, "round": number,
            "metrics": {"images_per_second": images, "memory_mib": 1000.0}}


MEASUREMENTS = [
    entry("gs", 0, 20.0), entry("off", 0, 10.0), entry(LIMIT, 0, 30.0),
    entry("gs", 1, 12.0), entry("off", 1, 8.0),
    {"workload": "resnet50", "ranks": 2, "series": "gs", "round": 2, "failed": "killed"},
    {"workload": "resnet50", "ranks": 2, "series": "nbcs", "round": 0, "failed": "killed"},
    {"workload": "idle", "ranks": 2, "series": "off", "round": 0, "metrics": {
        "background_percent": 100.0, "process_percent": 101.0, "memory_mib": 600.0}},
    {"workload": "idle", "ranks": 2, "series": "gs", "round": 0, "metrics": {
        "background_percent": 5.0, "process_percent": 6.0, "memory_mib": 600.5}},
]


def find(metric: str, series: str) -> dict:
    [row] = [row for row in results.summary(MEASUREMENTS)
             if (row["metric"], row["series"]) == (metric, series)]
    return row


def test_summary_compares_with_off_and_counts_failures():
    gs = find("images_per_second", "gs")
    assert gs["spread"] == {"median": 16.0, "low": 12.0, "high": 20.0, "n": 2}
    assert gs["against_off"] == {"how": "ratio", "median": 1.75, "low": 1.5, "high": 2.0, "n": 2}
    assert gs["failed"] == 1


def test_memory_is_a_difference_and_only_of_the_idle_workload():
    assert find("memory_mib", "gs")["against_off"]["median"] == 0.5


def test_a_series_without_any_result_is_in_the_table_as_failed():
    assert find("images_per_second", "nbcs")["spread"] is None
    console = Console(width=130, file=io.StringIO())
    console.print(rich_table(results.grid(MEASUREMENTS)))
    [line] = [line for line in console.file.getvalue().splitlines() if "nbcs" in line]
    assert "failed" in line and "0 of 1" in line


def test_table_starts_with_the_limit_and_off():
    series = [row.series for row in results.rows(MEASUREMENTS)
              if row.metric.key == "images_per_second"]
    assert series == [LIMIT, "off", "gs", "nbcs"]


def test_plot_of_incomplete_measurements(tmp_path):
    [path] = save_pictures([picture(MEASUREMENTS, "a machine")], tmp_path)
    assert path == tmp_path / "overhead.png"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_nothing_to_plot_is_no_error():
    assert picture([m for m in MEASUREMENTS if "failed" in m], "a machine") is None


def bench(*arguments: str) -> int:
    return cli.main(["bench", "overhead", *arguments])


@pytest.fixture
def answers(monkeypatch):
    """What jobs say, in their order: microseconds, or what is raised. `ran`: their series."""
    class Answers(list):
        ran: list[str] = []

    answers = Answers()
    answers.ran = []

    def run(series, *_):
        answers.ran.append(series.name)
        answer = answers.pop(0)
        if not isinstance(answer, float):
            raise answer
        return {"workload": "chain", "metrics": {"microseconds": answer}, "mpi": "Open MPI v5",
                "per_rank": {"memory_mib": [500.0, 502.0]}}

    monkeypatch.setattr(worker_job, "run", run)
    return answers


def test_an_interrupted_benchmark_keeps_and_shows_what_it_has(answers, tmp_path, capsys):
    answers += [1.0, 1500.0, KeyboardInterrupt()]
    assert bench("--only", "chain", "--output", str(tmp_path)) == 130
    captured = capsys.readouterr()
    assert "1500" in captured.out and "The same command goes on from here" in captured.err
    saved = json.loads((tmp_path / "overhead.json").read_text())
    assert [m["metrics"] for m in saved["measurements"]] == [
        {"microseconds": 1.0, "memory_mib": 501.0}, {"microseconds": 1500.0, "memory_mib": 501.0}]
    assert saved["summary"] == json.loads(json.dumps(results.summary(saved["measurements"])))
    assert {path.name for path in tmp_path.iterdir()} == {"overhead.json", "overhead.png"}


def test_it_goes_on_where_it_was_interrupted(answers, tmp_path, capsys):
    chain = ("--only", "chain", "--modes", "topo", "--rounds", "2", "--output", str(tmp_path))
    order = [series for *_, series in names_of_jobs(*chain)]
    answers += [1.0, launch.JobFailed("killed: not finished after 9 s"), 3.0, KeyboardInterrupt()]
    assert bench(*chain) == 130
    assert answers.ran == order[:4]
    answers.ran.clear()
    answers += [20.0, 40.0, 50.0, 60.0]
    assert bench(*chain) == 0
    assert answers.ran == [order[1], *order[3:]]  # the failed one, and those that had not run
    assert "Measured before, and kept: 2 of 6 jobs" in capsys.readouterr().err
    saved = json.loads((tmp_path / "overhead.json").read_text())
    by_job = {(job["round"], job["series"]): job["metrics"]["microseconds"]
              for job in saved["measurements"]}
    assert by_job == dict(zip(
        [(number, series) for number, _, _, series in names_of_jobs(*chain)],
        [1.0, 20.0, 3.0, 40.0, 50.0, 60.0]))
    assert bench(*chain) == 0 and answers == []  # nothing is left to measure


# What the benchmark runs instead of a workload says which process it is, and never ends.
BENCH = """
import sys
from horovod_lab.bench.overhead import overhead_suite
from horovod_opt import cli
overhead_suite.PROGRAMS["idle"] = (sys.argv[1], sys.argv[2])
sys.exit(cli.main(["bench", "overhead", "--only", "idle", "--quick", "--output", sys.argv[2]]))
"""


def test_sigterm_ends_all_that_it_started(tmp_path):
    program = tmp_path / "workload.py"
    program.write_text(f"{SAY_AND_STAY}\nimport sys\n"
                       "say_and_stay(os.getpid(), sys.argv[1] + f'/rank-{os.getpid()}')\n")
    process = subprocess.Popen([sys.executable, "-c", BENCH, program, tmp_path],
                               stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len([*tmp_path.glob("rank-*[0-9]")]) == 2)
    process.terminate()
    errors = process.communicate(timeout=HANG_SECONDS)[1]
    assert process.returncode == 130, errors
    assert "The same command goes on from here" in errors
    for rank in tmp_path.glob("rank-*[0-9]"):
        assert not Path("/proc", rank.read_text()).exists()


def test_other_lengths_and_files_of_old_are_not_mixed(answers, tmp_path, capsys):
    chain = ("--only", "chain", "--modes", "off", "--output", str(tmp_path))
    answers += [1.0] * 6
    assert bench(*chain) == 0
    before = (tmp_path / "overhead.json").read_text()
    assert bench(*chain, "--quick") == 2
    assert "was measured with other seconds; remedy: another --output" in capsys.readouterr().err
    document = json.loads(before)
    del document["settings"]
    (tmp_path / "overhead.json").write_text(json.dumps(document))
    assert bench(*chain) == 2
    assert "was measured with other seconds" in capsys.readouterr().err


def test_failed_jobs_end_the_benchmark_with_an_error(answers, tmp_path, capsys):
    answers += [launch.JobFailed("ended with exit code 1")] * 2
    assert bench("--only", "chain", "--modes", "off", "--quick", "--output", str(tmp_path)) == 2
    assert "2 of 2 jobs failed" in capsys.readouterr().err
