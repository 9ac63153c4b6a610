"""The command `horovod-opt bench`: its suites, what it refuses, keeps and goes on with."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys

import pytest

pytest.importorskip("matplotlib")

from horovod_lab.bench import bench_command
from horovod_lab.bench.training import run_job, training_options
from horovod_lab.bench.training.prepare import prepare
from horovod_lab.bench.worker_job import BASE, LIMIT
from horovod_lab.measuring import documents, launch
from horovod_opt import cli


def bench(*arguments: object) -> int:
    return cli.main(["bench", *map(str, arguments)])


@pytest.mark.parametrize("arguments, message", [
    (("--models", "ResNet51"), "'ResNet51' is not one of ResNet18"),
    (("--models", "VGG16", "--framework", "torch"), "'VGG16' is not one of"),
    (("--input", "jpeg"), "'jpeg' is neither synthetic nor real"),
    (("--input", "real", "--framework", "torch"), "is read by tf.data"),
    (("--pixels", 40, "--models", "AlexNet"), "AlexNet needs at least 67, not 40"),
    (("--global-batch", 9, "--ranks", 2), "9 images cannot be divided equally among 2 ranks"),
    (("--global-batch", 8, "--batch", 4), "give one of them"),
    (("--breakdown", "--framework", "torch"), "measured with TensorFlow only"),
    (("--tf-cnn-benchmarks", "/nowhere"), "there is no tf_cnn_benchmarks.py in /nowhere"),
    (("--hosts", "a:1,b:1", "--ranks", 4), "4 ranks, but the hosts have 2 slots"),
    (("--output", "/proc/1/x"), "/proc/1/x cannot be made"),
])
def test_what_cannot_be_measured_is_refused_before_anything_runs(
        executed, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert bench(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("horovod-opt bench: ") and message in error
    assert not executed


QUICK = ("--models", "ResNet18", "--modes", "topo", "--ranks", 2, "--rounds", 1)


def test_a_benchmark_is_measured_shown_and_kept(executed, tmp_path, capsys):
    assert bench(*QUICK, "--output", tmp_path) == 0
    saved = documents.load(tmp_path / "bench.json", "bench")
    assert [(job["series"], job["mode"], job["images_per_second"])
            for job in saved["measurements"]] == [(LIMIT, None, 20.0), ("off", "off", 20.0),
                                                  ("topo", "topo", 20.0)]
    captured = capsys.readouterr()
    assert "20.0" in captured.out and "bench.json" in captured.err


def test_an_interrupted_benchmark_goes_on(executed, tmp_path, monkeypatch, capsys):
    answers = iter([executed.result(1.0), KeyboardInterrupt()])
    monkeypatch.setattr(run_job.launch, "execute", lambda *_: _next(answers))
    assert bench(*QUICK, "--output", tmp_path) == 130
    assert "The same command goes on from here" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(run_job.launch, "execute", lambda *_: executed.result(2.0))
    assert bench(*QUICK, "--output", tmp_path) == 0
    saved = documents.load(tmp_path / "bench.json", "bench")
    assert [job["images_per_second"] for job in saved["measurements"]] == [1.0, 2.0, 2.0]
    assert "Measured before, and kept: 1 of 3 jobs" in capsys.readouterr().err


def test_sigterm_interrupts(executed, tmp_path, monkeypatch, capsys):
    def interrupt(*_):
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("went on")

    monkeypatch.setattr(run_job.launch, "execute", interrupt)
    assert bench(*QUICK, "--output", tmp_path) == 130
    assert "The same command goes on from here" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def _next(answers):
    answer = next(answers)
    if isinstance(answer, BaseException):
        raise answer
    return answer


def test_failed_jobs_are_tried_again_and_end_with_2(executed, tmp_path, monkeypatch, capsys):
    answers = iter([executed.result(1.0), launch.JobFailed("killed: not finished after 9 s"),
                    executed.result(3.0)])
    monkeypatch.setattr(run_job.launch, "execute", lambda *_: _next(answers))
    assert bench(*QUICK, "--output", tmp_path) == 2
    assert "1 of 3 jobs failed; the others are kept" in capsys.readouterr().err
    failed = documents.load(tmp_path / "bench.json", "bench")["measurements"][1]
    assert failed["failed"] == "killed: not finished after 9 s" and failed["mode"] == "off"
    monkeypatch.setattr(run_job.launch, "execute", lambda *_: executed.result(2.0))
    assert bench(*QUICK, "--output", tmp_path) == 0
    saved = documents.load(tmp_path / "bench.json", "bench")
    assert {job["series"]: job["images_per_second"] for job in saved["measurements"]} == {
        LIMIT: 1.0, "off": 2.0, "topo": 3.0}


def test_measurements_with_other_settings_are_not_mixed(executed, tmp_path, capsys):
    assert bench(*QUICK, "--output", tmp_path) == 0
    before = (tmp_path / "bench.json").read_text()
    assert bench(*QUICK, "--seconds", 9, "--output", tmp_path) == 2
    assert "was measured with other seconds; remedy: another --output" in capsys.readouterr().err
    assert (tmp_path / "bench.json").read_text() == before


def test_half_a_file_is_not_overwritten(executed, tmp_path, capsys):
    (tmp_path / "bench.json").write_text('{"kind": "ben')
    assert bench(*QUICK, "--output", tmp_path) == 2
    assert "is not JSON, or only a part of it" in capsys.readouterr().err
    assert (tmp_path / "bench.json").read_text() == '{"kind": "ben'


@pytest.mark.parametrize("suite", [[], ["training"], ["overhead"], ["steps"]])
def test_help_is_quick_and_loads_no_library_for_plots(suite):
    code = ("import sys; from horovod_opt import cli\n"
            f"try: cli.main({['bench', *suite, '--help']})\nexcept SystemExit: pass\n"
            "assert not {'matplotlib', 'numpy', 'tensorflow'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_without_the_name_of_a_suite_it_is_training(executed, tmp_path):
    assert bench(*QUICK, "--output", tmp_path / "plain") == 0
    assert bench("training", *QUICK, "--output", tmp_path / "named") == 0
    plain, listed = (documents.load(tmp_path / name / "bench.json", "bench")
                     for name in ("plain", "named"))
    assert plain["settings"] == listed["settings"]
    assert ([job["series"] for job in plain["measurements"]]
            == [job["series"] for job in listed["measurements"]] == [LIMIT, "off", "topo"])


@pytest.mark.parametrize("arguments, texts", [
    (["--help"], ("training", "overhead", "steps", "shows the options")),
    (["training", "--help"], ("--global-batch", "strong scaling")),
    (["overhead", "--help"], ("--only", "idle,chain,small")),
    (["steps", "--help"], ("--only", "resnet50,text,text_torch", "gs,nbcs,topo")),
])
def test_help_of_each_suite(arguments, texts, capsys):
    with pytest.raises(SystemExit):
        bench(*arguments)
    printed = capsys.readouterr().out
    assert printed.startswith("usage: horovod-opt bench")
    for text in texts:
        assert text in printed, text


@pytest.mark.parametrize("arguments, message", [
    (["train"], "unrecognized arguments: train"),
    (["overhead", "--global-batch", "8"], "unrecognized arguments: --global-batch"),
    (["overhead", "training"], "unrecognized arguments: training"),
])
def test_options_of_another_suite_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        bench(*arguments)
    assert message in capsys.readouterr().err


def test_other_commands_are_left_as_they_are():
    for arguments in ([], ["simulate", "--ranks", "6"], ["plan", "bench"], ["--version"]):
        assert bench_command.with_suite(arguments) == arguments


def test_prepared_cells_have_their_batch(executed):
    parser = argparse.ArgumentParser()
    training_options.add(parser.add_subparsers())
    options = parser.parse_args(["training", "--global-batch", "8", "--ranks", "2", "4", "--input",
                                 "synthetic,real", "--breakdown", "--models", "VGG16,AlexNet"])
    cells, series, setup = prepare(options)
    assert {(cell.ranks, cell.batch) for cell in cells} == {(2, 4), (4, 2)}
    assert len(cells) == 2 * 2 * 2 * 2 and len(set(cells)) == len(cells)
    assert {(cell.model, cell.pixels) for cell in cells} == {("VGG16", 224), ("AlexNet", 227)}
    assert [way.name for way in series][:2] == [LIMIT, BASE]
    assert setup.images.name == "images"
