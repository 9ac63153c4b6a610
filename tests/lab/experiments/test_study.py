"""What all experiments share: their options, what they leave in results/, and when they refuse."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

import study

from horovod_lab.measuring import documents
from horovod_lab.measuring.literature import EFFICIENCY, GAIN
from horovod_lab.report.source import Beside

COMPARED = [Beside(EFFICIENCY, 0.5, "2 ranks"), Beside(GAIN["gs"], -0.04, "4 ranks", fitted=True)]


class Measured:
    """Leaves a file, or fails."""

    def __init__(self, status: int = 0, passes_on: str = ""):
        self.status = status
        self.passes_on = passes_on
        self.further: list[str] = []

    def add_options(self, parser) -> None:
        parser.add_argument("--ranks", type=int, default=2)

    def run(self, options, further, folder) -> int:
        self.further = list(further)
        documents.save(folder / "bench.json", {**documents.new("bench", ["horovod-opt"]),
                                               "ranks": options.ranks})
        return self.status


def study_of(measurement: Measured, compare=lambda documents: COMPARED) -> study.Study:
    return study.Study(name="example", text="A title.\n\nWhat it\ndoes.\n",
                       repeats=("Figure 6.5, p. 120",), measurement=measurement, compare=compare)


def test_a_study_leaves_its_files_and_puts_them_beside_the_source(tmp_path, capsys):
    ranks = []

    def compare(documents):
        ranks.extend(document["ranks"] for document in documents)
        return COMPARED

    assert study_of(Measured(), compare).main(["--output", str(tmp_path), "--ranks", "4"]) == 0
    assert ranks == [4]
    assert {path.name for path in (tmp_path / "example").iterdir()} == {
        "bench.json", "beside-the-source.png"}
    printed = capsys.readouterr().out
    for text in ("A title. Beside the source", "30.3 (24,576 GPUs)", "50.0", "Figure 6.16, p. 135",
                 "-4 (fitted)", "4 ranks"):
        assert text in printed, text


@pytest.mark.parametrize("status", [2, 130])
def test_what_is_not_complete_is_not_compared(tmp_path, capsys, status):
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / "beside-the-source.png").touch()  # of an earlier run
    assert study_of(Measured(status)).main(["--output", str(tmp_path)]) == status
    assert not (tmp_path / "example" / "beside-the-source.png").exists()
    assert f"example: not complete, exit status {status}" in capsys.readouterr().err


def test_nothing_that_can_be_compared(tmp_path, capsys):
    assert study_of(Measured(), lambda documents: []).main(["--output", str(tmp_path)]) == 2
    assert "nothing was measured that the source has a number of" in capsys.readouterr().err


def test_a_file_that_is_none_of_ours_is_named(tmp_path, capsys):
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / "other.json").write_text("{}")
    assert study_of(Measured()).main(["--output", str(tmp_path)]) == 2
    assert "other.json is no bench or nodes or profile" in capsys.readouterr().err


def test_options_of_the_tool_are_passed_on(tmp_path):
    measurement = Measured(passes_on="horovod-opt bench training")
    arguments = ["--output", str(tmp_path), "--rounds", "5", "--ranks", "2"]
    assert study_of(measurement).main(arguments) == 0
    assert measurement.further == ["--rounds", "5"]


def test_without_a_tool_unknown_options_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        study_of(Measured()).main(["--output", str(tmp_path), "--rounds", "5"])
    assert "unrecognized arguments: --rounds 5" in capsys.readouterr().err


def test_the_picture_has_the_sources_range_and_ours():
    axis = study.picture(study_of(Measured()), COMPARED).figure.axes[0]
    marks = [(list(line.get_xdata()), line.get_markerfacecolor()) for line in axis.lines
             if len(line.get_xdata())]
    assert [values for values, _ in marks] == [
        [pytest.approx(30.3)] * 2, [50.0], [10.0, 10.0], [-4.0]]
    assert marks[1][1] != "white" and marks[3][1] == "white"


class Started(list):
    """Commands that were to be run; `interruptions`: how often Ctrl-C is pressed meanwhile."""

    interruptions = 0


@pytest.fixture
def launches(monkeypatch, tmp_path) -> Started:
    (tmp_path / "horovod-opt").touch()
    monkeypatch.setattr(study.sys, "executable", str(tmp_path / "python"))
    commands = Started()

    class Process:
        def __init__(self, command, cwd, env):
            assert cwd == study.ROOT
            commands.append([Path(command[0]).name, *command[1:]])

        def wait(self):
            if commands.interruptions:
                commands.interruptions -= 1
                raise KeyboardInterrupt
            return 7

    monkeypatch.setattr(study.subprocess, "Popen", Process)
    return commands


def test_a_tool_is_run_with_the_users_options_last(launches):
    status = study.training("--ranks", 2).run(None, ["--ranks", "8"], study.ROOT / "results")
    assert status == 7
    assert launches == [["horovod-opt", "bench", "training", *study.SMALL, "--images",
                         "build/images", "--ranks", "2", "--output", "results", "--ranks", "8"]]


def test_paths_outside_of_the_project_stay_whole(tmp_path, monkeypatch):
    assert study.relative(tmp_path) == str(tmp_path)
    monkeypatch.chdir(study.ROOT / "tests")
    assert study.relative(Path("unit")) == "tests/unit"


def test_an_interruption_is_left_to_the_tool(launches):
    launches.interruptions = 2
    assert study.horovod_opt("simulate") == 7
    assert launches == [["horovod-opt", "simulate"]]


@pytest.fixture
def tool_that_is_ended(monkeypatch, tmp_path):
    """Has SIGTERM sent to the study, and ends by the signal that it gets itself."""

    def make(status: int) -> None:
        tool = tmp_path / "horovod-opt"
        tool.write_text(f"#!/bin/sh\ntrap 'exit {status}' TERM\nkill -TERM $PPID\n"
                        "while :; do sleep 0.05; done\n")
        tool.chmod(0o755)
        monkeypatch.setattr(study.sys, "executable", str(tmp_path / "python"))

    return make


def test_sigterm_ends_the_tool_first(tool_that_is_ended):
    tool_that_is_ended(130)
    assert study.horovod_opt("simulate") == 130
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_sigterm_at_the_end_of_a_tool_is_not_lost(tool_that_is_ended):
    """Else the next measurement of the study would begin."""
    tool_that_is_ended(0)
    assert study.horovod_opt("simulate") == 128 + signal.SIGTERM


def test_a_python_without_horovod_opt(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(study.sys, "executable", str(tmp_path / "python"))
    assert study.horovod_opt("simulate") == 2
    assert "There is no horovod-opt beside" in capsys.readouterr().err
