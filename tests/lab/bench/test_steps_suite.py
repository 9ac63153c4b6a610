"""The suite steps: its jobs, targets, tables, and what it does with jobs that fail.

No job of these tests uses Horovod: what a benchmark measures is not a test.
"""

from __future__ import annotations

import argparse
import io
import json

import pytest
from rich.console import Console

pytest.importorskip("matplotlib")

from horovod_lab.bench import worker_job
from horovod_lab.bench.steps import kinds, steps_options, steps_suite, targets
from horovod_lab.bench.steps.kinds import KINDS
from horovod_lab.bench.steps.results import cells, summary, verdicts
from horovod_lab.bench.steps.steps_pictures import section
from horovod_lab.bench.steps.targets import TARGETS
from horovod_lab.bench.worker_job import BASE, LIMIT, WORKERS, YIELDING
from horovod_lab.measuring import documents, launch
from horovod_lab.measuring.present import rich_table, save_pictures
from horovod_opt import cli

SERIES = (BASE, YIELDING.name, "gs", "nbcs", "topo")

# The jobs


def parse(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    steps_options.add(parser.add_subparsers())
    return parser.parse_args(["steps", *argv])


def jobs(*argv: str, cores: int = 2) -> list[kinds.Job]:
    options = parse(*argv)
    return kinds.order(options.only, options.modes, options.ranks, options.rounds, cores)


def test_every_kind_runs_in_every_series_at_2_and_4_ranks():
    queue = {(job.kind.name, job.ranks, job.series.name) for job in jobs("--rounds", "1")}
    assert queue == {(name, ranks, series) for name in KINDS for ranks in (2, 4)
                     for series in SERIES} | {("resnet50", ranks, LIMIT) for ranks in (2, 4)}


def test_series_are_interleaved_and_rounds_complete():
    order = [(job.round, job.series.name) for job in jobs(
        "--only", "text", "--ranks", "2", "--rounds", "2")]
    assert order == [*((0, name) for name in SERIES),
                     *((1, name) for name in (*SERIES[1:], SERIES[0]))]


def test_the_tuned_off_differs_from_off_in_mpis_setting_only():
    tuned, plain = (next(job.series for job in jobs() if job.series.name == name)
                    for name in (YIELDING.name, BASE))
    assert tuned.environ() == {**plain.environ(), "OMPI_MCA_mpi_yield_when_idle": "1"}


def test_jobs_keep_their_memory_unless_the_user_says_otherwise(monkeypatch):
    for name in steps_suite.KEEPS_MEMORY:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "7")
    calls = []

    def run(series, *_):
        calls.append(series.environ())
        return {"metrics": {"steps_per_second": 2.0}, "mpi": "",
                "per_rank": {"counters": [], "memory_mib": [1]}}

    monkeypatch.setattr(worker_job, "run", run)
    tuned = next(job for job in jobs() if job.series.name == YIELDING.name)
    assert steps_suite.measure(tuned, 1, 10)["steps_per_second"] == 2.0
    (environ,) = calls
    assert environ["MALLOC_TRIM_THRESHOLD_"] == "7"
    assert environ["MALLOC_MMAP_THRESHOLD_"] == str(2**25)
    assert environ["OMPI_MCA_mpi_yield_when_idle"] == "1"


def test_modes_and_kinds_can_be_chosen():
    queue = jobs("--only", "chain,zero1_torch", "--modes", "off,topo,topo+scp", "--ranks", "3")
    assert {(job.kind.name, job.ranks) for job in queue} == {("chain", 3), ("zero1_torch", 3)}
    assert {job.series.name for job in queue} == {BASE, YIELDING.name, "topo"}  # 2 cores
    assert "topo+scp" in {job.series.name for job in jobs("--modes", "topo+scp", cores=8)}


def test_every_kind_has_a_program_and_a_label_of_its_own():
    assert len({kind.label for kind in KINDS.values()}) == len(KINDS) == 11
    for kind in KINDS.values():
        assert (WORKERS / kind.program[0]).is_file(), kind.name


@pytest.mark.parametrize("argv, message", [
    (["--only", "text,txt"], "'txt' is not one of resnet50, text, "),
    (["--modes", "gs,fast"], "'fast' is not a mode"),
    (["--ranks", "1"], "one rank has nobody to communicate with: give at least 2"),
    (["--ranks", "two"], "'two' is not a whole number of at least 1"),
    (["--rounds", "0"], "'0' is not a whole number of at least 1"),
    (["--seconds", "0"], "'0' is not a number of seconds above 0"),
    (["--seconds", "nan"], "'nan' is not a number of seconds above 0"),
    (["--timeout", "soon"], "'soon' is not a number of seconds above 0"),
    (["--models", "ResNet50"], "unrecognized arguments: --models"),
])
def test_bad_option(argv, message, capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main(["bench", "steps", *argv])
    assert exit.value.code == 2 and message in capsys.readouterr().err


# Targets


def entry(step: str, series: str, value: float, number: int = 0, ranks: int = 2,
          rounds: int = 0) -> dict:
    return {"round": number, "step": step, "ranks": ranks, "series": series,
            KINDS[step].key: value, "rounds": rounds}


def failed(step: str, series: str, number: int = 0, reason: str = "killed", ranks: int = 2) -> dict:
    return {"round": number, "step": step, "ranks": ranks, "series": series, "failed": reason}


def of_all(step: str, *values: float, **more: int) -> list[dict]:
    """A round of the five series."""
    return [entry(step, name, value, **more) for name, value in zip(SERIES, values)]


def judge_all(measurements: list[dict]) -> dict[str, tuple]:
    """(value, met, why) by target, of a single cell."""
    [cell] = cells(measurements)
    return {str(verdict.target): (
                verdict.value and round(verdict.value.median, 3), verdict.met, verdict.why)
            for verdict in verdicts(cell)}


def test_the_best_of_the_others_is_found_in_pairs_of_a_round():
    # The machine became ten times as fast in round 1, in which gs was not measured.
    measurements = [*of_all("text", 10, 20, 30, 15, 33),
                    *of_all("text", 100, 200, 300, 150, 330, number=1)]
    measurements = [job for job in measurements if (job["series"], job["round"]) != ("gs", 1)]
    [cell] = cells(measurements)
    assert cell.best() == "gs"
    assert cell.speed("topo", "gs").median == pytest.approx(1.1) and cell.speed("topo", "gs").n == 1
    assert cell.speed("topo", BASE).median == pytest.approx(3.3) and cell.speed("topo", BASE).n == 2


def test_targets_of_a_text_model():
    assert judge_all(of_all("text", 10, 12, 11, 12.5, 12.5)) == {
        "≥ 1 x best": (1.0, True, ""), "≥ 1.3 x off": (1.25, False, ""),
        "≤ 0 rounds": (0, True, "")}
    assert judge_all(of_all("text_torch", 10, 12, 11, 14, 13, ranks=4, rounds=7)) == {
        "≥ 1 x best": (0.929, False, ""), "≥ 1.3 x off": (1.3, True, ""),
        "≤ 0 rounds": (7, False, "")}


def test_resnet50_is_compared_with_no_communication_at_2_ranks_only():
    def of_both_steps(ranks: int) -> list[dict]:
        return [*of_all("resnet50", 18, 23, 23, 23, 24, ranks=ranks),
                entry("resnet50", LIMIT, 25, ranks=ranks)]

    assert judge_all(of_both_steps(2))["≥ 0.96 x alone"] == (0.96, True, "")
    assert set(judge_all(of_both_steps(4))) == {"≥ 1 x best", "≤ 0 rounds"}


def test_times_are_better_when_they_are_smaller():
    chain = judge_all(of_all("chain", 2200, 1100, 1000, 1200, 50))
    assert chain["≥ 1 x best"] == (20.0, True, "") and chain["≤ 40 us"] == (50, False, "")
    assert judge_all(of_all("chain", 2200, 1100, 1000, 1200, 40))["≤ 40 us"] == (40, True, "")
    small = judge_all(of_all("small", 2.0, 1.5, 1.0, 2.5, 0.8))
    assert small["≥ 1 x best"] == (1.25, True, "") and small["≤ 0.4 x off's ms"] == (0.4, True, "")


def test_the_most_rounds_of_any_job_count():
    measurements = [*of_all("groups", 1, 1, 1, 1, 1),
                    *of_all("groups", 1, 1, 1, 1, 1, number=1, rounds=2)]
    assert judge_all(measurements)["≤ 0 rounds"] == (2, False, "")


def test_a_failed_job_is_a_target_not_met_whatever_the_others_say():
    measurements = [*of_all("groups", 1, 1, 1, 1, 2), failed("groups", "nbcs", 1)]
    assert judge_all(measurements) == {"≥ 1 x best": (2.0, False, "nbcs failed"),
                                       "≤ 0 rounds": (0, True, "")}
    measurements = [*(job for job in measurements if job["series"] != "topo"),
                    failed("groups", "topo")]
    assert judge_all(measurements) == {"≥ 1 x best": (None, False, "topo, nbcs failed"),
                                       "≤ 0 rounds": (None, False, "topo failed")}


def test_what_the_build_does_not_support_is_a_target_not_met():
    reason = "not supported by this build: Tensor type torch.BFloat16Tensor is not supported."
    measurements = [failed("transformer_torch", name, reason=reason) for name in SERIES]
    assert set(judge_all(measurements).values()) == {(None, False, "not supported by this build")}


def test_what_was_not_measured_is_neither_met_nor_missed():
    measurements = [job for job in of_all("groups", 1, 1, 1, 1, 2) if job["series"] != "gs"]
    assert judge_all(measurements)["≥ 1 x best"] == (2.0, None, "gs not measured")


def test_every_target_has_one_bound_and_steps_that_exist():
    for target in TARGETS:
        assert (target.least is None) != (target.most is None), str(target)
        assert target.steps and set(target.steps) <= set(KINDS), str(target)
    assert all(any(target.of == quantity and target.applies(step, ranks) for target in TARGETS)
               for step in KINDS for ranks in (2, 4)
               for quantity in (targets.SPEED, targets.ROUNDS))


# What is shown


MEASUREMENTS = [
    *of_all("text", 10, 20, 30, 15, 33), *of_all("text", 10, 20, 30, 15, 36, number=1),
    failed("text", "nbcs", 2), *of_all("chain", 2200, 1100, 1000, 1200, 50, ranks=4),
    *(failed("transformer_torch", name, reason="not supported by this build: x")
      for name in SERIES)]


def show_section(measurements: list[dict]):
    return section(json.loads(json.dumps(
        {**documents.new("steps", ["horovod-opt"]), "measurements": measurements})))


def lines_of(grid) -> dict[tuple[str, str, str], dict[str, str]]:
    """By step, ranks and target, where a column has been left empty that of the line above."""
    by_cell, step, ranks = {}, "", ""
    for row in grid.rows:
        line = dict(zip(grid.columns, row))
        step, ranks = line["step"] or step, line["ranks"] or ranks
        by_cell[step, ranks, line["target"]] = line
    return by_cell


def test_the_table_says_how_fast_each_mode_is_and_which_targets_are_met():
    page = show_section(MEASUREMENTS)
    table = lines_of(page.grids[1])
    text = table["text model", "2", "≥ 1 x best"]
    assert (text["off"], text["gs"]) == ("0.33\n0.33-0.33", "1.00\n1.00-1.00")
    assert text["topo"] == text["value"] == "1.15\n1.10-1.20"
    assert text["met"] == "no: nbcs failed"
    assert table["text model", "2", "≥ 1.3 x off"]["met"] == "yes"
    assert table["one of 20 dependent allreduces", "4", "≤ 40 us"]["value"] == "50.0"
    refused = table["transformer, bfloat16, PyTorch", "2", "≥ 1 x best"]
    assert refused["off"] == "" and refused["met"] == "no: not supported by this build"
    assert "4 of 8 targets met" in page.grids[1].title and "4 of 8" in page.summary


def test_the_other_table_has_the_values_the_failures_and_the_rounds():
    grid = show_section(MEASUREMENTS).grids[0]
    [text] = [dict(zip(grid.columns, row)) for row in grid.rows if row[0] == "text model, steps/s"]
    assert text["topo"] == "34.5\n33.0-36.0" and text["rounds"] == "0"
    assert text["nbcs"] == "15.0\n15.0-15.0\n1 of 3 failed"
    [refused] = [dict(zip(grid.columns, row)) for row in grid.rows if "bfloat16" in row[0]]
    assert refused["gs"] == "not supported by this build" and refused["rounds"] == ""


def test_tables_fit_a_terminal_and_the_picture_is_drawn(tmp_path):
    page = show_section(MEASUREMENTS)
    text = io.StringIO()
    for grid in page.grids:
        Console(file=text, width=140).print(rich_table(grid))
    assert "≥ 1.3 x off" in text.getvalue() and "1 of 3 failed" in text.getvalue()
    [path] = save_pictures(page.pictures, tmp_path)
    assert path.name == "steps.png" and path.read_bytes().startswith(b"\x89PNG")


def test_nothing_but_failures_can_be_shown():
    page = show_section([job for job in MEASUREMENTS if "failed" in job])
    assert not page.pictures and "0 of 5 targets met" in page.summary


# The command


def steps(*arguments: object) -> int:
    return cli.main(["bench", "steps", *map(str, arguments)])


QUICK = ("--only", "text", "--modes", "topo", "--ranks", 2, "--rounds", 1, "--seconds", 0.5)


def result(value: float, rounds: int = 0) -> dict:
    return {"workload": "text", "metrics": {"steps_per_second": value, "steps": 9},
            "mpi": "Open MPI", "per_rank": {
                "counters": [{"requested_rounds": rounds}, {"requested_rounds": 0}],
                "memory_mib": [500.0, 600.0]}}


def test_a_benchmark_is_measured_shown_and_kept(answers, tmp_path, capsys):
    answers += [result(10.0), result(20.0), result(30.0, rounds=4)]
    assert steps(*QUICK, "--timeout", 9, "--output", tmp_path) == 0
    series, *job = answers.runs[0]
    assert (series.name, job) == (BASE, [["dense.py", "text", "--seconds", "0.5"], 2, 9.0])
    saved = documents.load(tmp_path / "steps.json", "steps")
    assert [(job["series"], job["steps_per_second"], job["rounds"])
            for job in saved["measurements"]] == [
        (BASE, 10.0, 0), (YIELDING.name, 20.0, 0), ("topo", 30.0, 4)]
    assert saved["targets"] == json.loads(json.dumps(summary(saved["measurements"])))
    assert {(target["target"], target["met"], target["why"]) for target in saved["targets"]} == {
        ("≥ 1 x best", None, "gs, nbcs not measured"), ("≥ 1.3 x off", True, ""),
        ("≤ 0 rounds", False, "")}
    captured = capsys.readouterr()
    assert "30.0 steps/s" in captured.err and "1.50" in captured.out
    assert (tmp_path / "steps.png").exists()


def test_the_report_takes_its_file(answers, tmp_path):
    pytest.importorskip("jinja2")
    answers += [result(10.0), result(20.0), result(30.0)]
    assert steps(*QUICK, "--output", tmp_path) == 0
    page = tmp_path / "report.html"
    assert cli.main(["report", str(tmp_path), "--output", str(page)]) == 0
    assert "Kinds of training step: 2 of 3 targets met" in page.read_text(encoding="utf-8")


def test_an_interrupted_benchmark_goes_on(answers, tmp_path, capsys):
    answers += [result(10.0), KeyboardInterrupt()]
    assert steps(*QUICK, "--output", tmp_path) == 130
    answers += [result(20.0), result(30.0)]
    assert steps(*QUICK, "--output", tmp_path) == 0
    assert "Measured before, and kept: 1 of 3 jobs" in capsys.readouterr().err
    saved = documents.load(tmp_path / "steps.json", "steps")
    assert [job["steps_per_second"] for job in saved["measurements"]] == [10.0, 20.0, 30.0]


def test_failed_jobs_are_shown_and_tried_again(answers, tmp_path, capsys):
    answers += [result(10.0), launch.JobFailed("killed: not finished after 9 s"), result(30.0)]
    assert steps(*QUICK, "--output", tmp_path) == 2
    captured = capsys.readouterr()
    assert "failed: killed: not finished after 9 s" in captured.err and "failed" in captured.out
    answers.append(result(20.0))
    assert steps(*QUICK, "--output", tmp_path) == 0
    saved = documents.load(tmp_path / "steps.json", "steps")
    assert not [job for job in saved["measurements"] if "failed" in job]


def test_a_worker_that_finds_its_step_not_supported_is_a_failed_job(answers, tmp_path, capsys):
    refusal = {**result(0), "metrics": {"not_supported": "no bfloat16"}}
    answers += [refusal, refusal, refusal]
    assert steps(*QUICK, "--output", tmp_path) == 2
    assert "failed: not supported by this build: no bfloat16" in capsys.readouterr().err
    saved = documents.load(tmp_path / "steps.json", "steps")
    assert {target["met"] for target in saved["targets"]} == {False}


def test_measurements_of_another_length_are_not_mixed(answers, tmp_path, capsys):
    answers += [result(10.0)] * 3
    assert steps(*QUICK, "--output", tmp_path) == 0
    assert steps(*QUICK, "--seconds", 9, "--output", tmp_path) == 2
    assert "was measured with other seconds" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made(capsys):
    assert steps(*QUICK, "--output", "/proc/1/x") == 2
    assert "/proc/1/x cannot be made" in capsys.readouterr().err
