"""How a row is tried, and which rows are."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import gpu_builds
import matrix_command
import matrix_results
import own_machine
import psutil
import pytest
import row_environment
from events import MINUTE, wait_until
from matrix_command import check_place, forget_own_programs, try_row
from matrix_results import FAILED, NOT_BUILT, NOT_INSTALLED, PASSED, Matrix, Record
from matrix_rows import DEBIAN, MPICH, TENSORFLOW, TORCH, Row, Unusable
from outcomes import Outcome, Run
from own_machine import NoMachine
from quick_tests import SUITES
from row_environment import RowEnvironment, Stopped

ROW = Row(TORCH, "2.4")
GOOD = Run({"a": Outcome("passed"), "b": Outcome("skipped", "no GPU")})


def silent(*_: object) -> None:
    pass


# A row


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Installed and built in no time; its suites are those that `runs` has, by name."""
    row = RowEnvironment(ROW, tmp_path / ROW.name)
    monkeypatch.setattr(RowEnvironment, "install", lambda self: self.home.mkdir(parents=True))
    monkeypatch.setattr(RowEnvironment, "build", lambda self: None)
    monkeypatch.setattr(RowEnvironment, "versions", lambda self: {"torch": "2.4.1"})
    return row


@pytest.fixture
def runs(monkeypatch) -> dict[str, Run]:
    runs: dict[str, Run] = {}

    def run(job, folder, seconds, tick):
        tick(1)
        return runs.get(job.suite.name, GOOD)

    monkeypatch.setattr(matrix_command.Job, "run", run)
    return runs


def test_a_row_that_passes(environment, runs):
    commands = []
    record = try_row(environment, silent, lambda *parts: commands.append(" ".join(map(str, parts))))
    assert (record.ended, record.error, record.versions) == (PASSED, "", {"torch": "2.4.1"})
    assert list(record.suites) == [suite.name for suite in SUITES[TORCH]]
    assert record.passed() == record.skipped()["no GPU"] == len(SUITES[TORCH])
    assert list(record.seconds) == ["install", "build", "test"]
    assert any(line.startswith("torch-2.4 operations: 1 / 0 / 1") for line in commands)


def test_one_failed_test_fails_the_row_and_the_others_still_run(environment, runs):
    file = environment.source / "tests" / "x.py"
    runs["operations"] = Run({"a": Outcome("failed", f"{file}:3: wrong")})
    record = try_row(environment, silent, silent)
    assert record.ended == FAILED
    assert record.failed() == {("operations", "a"): "source/tests/x.py:3: wrong"}
    assert len(record.suites) == len(SUITES[TORCH])


@pytest.mark.parametrize("step, ended", [("install", NOT_INSTALLED), ("build", NOT_BUILT)])
def test_a_row_ends_at_the_step_that_does_not_succeed(environment, runs, monkeypatch, step, ended):
    def stop(self):
        raise Stopped(f"{self.home}/source/setup.py: no")

    monkeypatch.setattr(RowEnvironment, step, stop)
    record = try_row(environment, silent, silent)
    assert (record.ended, record.error, record.suites) == (ended, "source/setup.py: no", {})
    assert list(record.seconds)[-1] == step
    assert record.versions == ({} if step == "install" else {"torch": "2.4.1"})


@pytest.mark.parametrize("keep", [False, True])
def test_the_environment_is_deleted_unless_it_is_kept(environment, runs, keep, tmp_path):
    arguments = matrix_command.parse_arguments([str(tmp_path), *["--keep"] * keep])
    runs["operations"] = Run({"a": Outcome("failed", "why")})
    assert matrix_command.run_here(ROW, arguments, matrix_command.Console()).ended == FAILED
    assert environment.folder.is_dir() and environment.home.exists() == keep


# Its environment


@pytest.fixture
def steps(monkeypatch, tmp_path):
    """What was run for a row in place of pip and Python, and the build.json that pip leaves."""
    ran: list[list[str]] = []
    environment = RowEnvironment(ROW, tmp_path / "out" / ROW.name)
    site = environment.programs.parent / "lib" / "python3.11" / "site-packages" / "horovod_opt"

    def run(command, environ, log, seconds):
        ran.append(command)
        log.write("copied a warning\nerror: it\n" if "fails" in environ else "fine\n")
        log.flush()
        site.mkdir(parents=True, exist_ok=True)
        (site / "build.json").write_text(f'{{"mpicxx": "{environ.get("MPICXX", "")}"}}')
        return int("fails" in environ)

    monkeypatch.setattr(row_environment, "run_limited", run)
    monkeypatch.setattr(row_environment, "copy_repository", lambda target, run: target.mkdir())
    return environment, ran


def test_framework_and_mpi_come_before_the_build(steps, monkeypatch):
    environment, ran = steps
    environment.folder.mkdir(parents=True)
    (environment.folder / "of an interrupted run").touch()
    monkeypatch.setenv("MPICXX", str(environment.programs / "mpicxx"))
    environment.install()
    environment.build()
    python = str(environment.programs / "python")
    assert [command[0] for command in ran] == [sys.executable] + [python] * 4
    assert ran[2][5] == "torch==2.4.*" and ran[3][1:] == ["-c", "import torch"]
    assert ran[4][-2:] == ["--verbose", str(environment.source)]
    assert sorted(path.name for path in environment.folder.iterdir()) == [
        "build.log", "environment", "install.log"]


@pytest.mark.parametrize("mpi, mpicxx, is_right", [
    (MPICH, "{programs}/mpicxx", True), (MPICH, "/usr/bin/mpicxx", False), (MPICH, "", False),
    (DEBIAN, "/usr/bin/mpicxx", True), (DEBIAN, "{programs}/mpicxx", False)])
def test_a_build_with_another_mpi_does_not_count(steps, monkeypatch, mpi, mpicxx, is_right):
    environment, _ = steps
    environment = RowEnvironment(Row(TORCH, "2.4", mpi), environment.folder)
    environment.home.mkdir(parents=True)
    monkeypatch.setenv("MPICXX", mpicxx.format(programs=environment.programs))
    if is_right:
        environment.build()
    else:
        with pytest.raises(Stopped, match=f"built with .*, which is not that of {mpi}"):
            environment.build()


def test_a_step_stops_with_its_own_error(steps, monkeypatch):
    environment, _ = steps
    environment.home.mkdir(parents=True)
    (environment.folder / "build.log").write_text("ERROR: of another step\n")
    monkeypatch.setenv("fails", "1")
    with pytest.raises(Stopped, match="^error: it$"):
        environment.build()


def test_no_setting_of_the_shell_reaches_a_row(monkeypatch, tmp_path):
    monkeypatch.setenv("HOROVOD_OPT_MODE", "topo")
    monkeypatch.setenv("HOROVOD_WITHOUT_GLOO", "1")
    environ = RowEnvironment(ROW, tmp_path).column.environ()
    assert not [name for name in environ if "HOROVOD" in name]
    assert environ["PATH"].startswith(str(tmp_path / "environment" / "venv" / "bin"))


def test_no_program_beside_this_python_is_found(monkeypatch):
    folder = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", os.pathsep.join(["/first", folder, "/usr/bin"]))
    forget_own_programs()
    assert os.environ["PATH"] == os.pathsep.join(["/first", "/usr/bin"])


@pytest.mark.parametrize("log, message", [
    ("note\nhorovod-opt: error: no framework found in /x\n",
     "horovod-opt: error: no framework found in /x"),
    ("FAILED: a.o\n/home/me/row/a.cc:12:3: error: no member\nhorovod-opt: error: cmake failed\n",
     "a.cc:12:3: error: no member"),
    ("/x/a.cc:1:2: fatal error: b.h: No such file\n", "a.cc:1:2: fatal error: b.h: No such file"),
    ("ERROR: Could not find a version\nhint: error: other\n", "ERROR: Could not find a version"),
    ("Traceback\n  File\nImportError: libcudart.so.12\n", "ImportError: libcudart.so.12"),
    ("", "it said nothing")])
def test_the_first_error_of_a_log(log, message):
    assert gpu_builds.first_error(log) == message


def test_an_interrupted_step_ends_with_what_it_started(tmp_path, monkeypatch):
    wait = gpu_builds.subprocess.Popen.wait
    mark = tmp_path / "begun"

    def interrupted(process, timeout=None):
        monkeypatch.setattr(gpu_builds.subprocess.Popen, "wait", wait)
        wait_until(mark.exists)
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu_builds.subprocess.Popen, "wait", interrupted)
    child = f"sleep 600 & echo $! > {mark}.part; mv {mark}.part {mark}; wait"
    with (tmp_path / "log").open("w") as log, pytest.raises(KeyboardInterrupt):
        gpu_builds.run_limited(["sh", "-c", child], os.environ, log, 300)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(mark.read_text())).wait(MINUTE)


# All rows


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Runs the command with rows that pass in no time; the names of those that were tried."""
    tried: list[str] = []

    def run_here(row, arguments, console):
        tried.append(row.name)
        return Record(row, ended=FAILED if row.version == "2.7" else PASSED)

    def start(*options: str) -> tuple[int, list[str]]:
        tried.clear()
        monkeypatch.setattr(sys, "argv", ["run", str(tmp_path / "out"), *options])
        return matrix_command.main(), tried

    monkeypatch.setattr(matrix_command, "newest_of_index", lambda distribution: ["2.14", "2.15"])
    monkeypatch.setattr(matrix_command, "run_here", run_here)
    monkeypatch.delenv(own_machine.INSIDE, raising=False)
    return start


def rows_kept(folder: Path) -> dict[str, str]:
    results = Matrix(folder / "out" / "versions.json", "run").results()
    return {record.row.name: record.ended for record in results.records()}


def test_some_rows_run_and_are_kept(start, tmp_path, capsys):
    assert start("--only", "torch-2.7,torch-2.4") == (1, ["torch-2.7", "torch-2.4"])
    assert rows_kept(tmp_path) == {"torch-2.7": FAILED, "torch-2.4": PASSED}
    assert "PyTorch 2.7" in capsys.readouterr().out
    assert "| PyTorch 2.4 |" in (tmp_path / "out" / "versions.md").read_text()


def test_a_resumed_run_tries_what_is_missing(start, tmp_path):
    start("--only", "torch-2.4,torch-2.7")
    assert start("--only", "torch-2.4,torch-2.10", "--resume") == (0, ["torch-2.10"])
    assert start("--only", "torch-2.4") == (0, ["torch-2.4"])
    assert start("--only", "torch-2.7", "--resume") == (1, [])
    assert len(rows_kept(tmp_path)) == 3


def test_an_interrupted_run_keeps_the_rows_before(start, monkeypatch, tmp_path, capsys):
    def interrupted(row, arguments, console):
        if row.version == "2.17":
            raise KeyboardInterrupt
        return Record(row, ended=PASSED)

    monkeypatch.setattr(matrix_command, "run_here", interrupted)
    assert start()[0] == 130
    assert rows_kept(tmp_path) == {"tensorflow-2.16": PASSED}
    assert "--resume goes on" in capsys.readouterr().out


def test_nothing_is_run_for_an_unknown_row(start, capsys):
    assert start("--only", "torch-2.99") == (2, [])
    assert capsys.readouterr().err.startswith("error: 'torch-2.99' is not one of tensorflow-2.16, ")


def test_results_are_recorded_on_request_alone(start, monkeypatch, tmp_path):
    page, recorded = tmp_path / "page.md", tmp_path / "recorded.json"
    page.write_text(matrix_command.PAGE.read_text())
    monkeypatch.setattr(matrix_command, "PAGE", page)
    monkeypatch.setattr(matrix_command, "RECORDED", recorded)
    start("--only", "torch-2.7")
    assert not recorded.exists()
    start("--only", "torch-2.4", "--record")
    assert "| PyTorch 2.4 |" in page.read_text()
    assert [record.row.version for record in matrix_results.read(recorded).records()] == [
        "2.4", "2.7"]


# Debian's Open MPI


def test_debians_mpi_is_tried_on_a_machine_of_its_own(start, monkeypatch, tmp_path):
    def run_inside(command):
        output, only, name = map(str, command[2:5])
        assert (output, only) == (str(tmp_path / "out"), "--only")
        matrix = Matrix(tmp_path / "out" / "versions.json", "run")
        (row,) = (row for row in matrix.results().rows if row.name == name)
        matrix.add(Record(row, ended=PASSED))
        return 0

    monkeypatch.setattr(own_machine, "run_inside", run_inside)
    assert start("--only", "openmpi-4.1,mpich-torch") == (0, ["mpich-torch-2.15"])
    assert list(rows_kept(tmp_path)) == [
        "mpich-torch-2.15", "openmpi-4.1-tensorflow-2.21", "openmpi-4.1-torch-2.15"]


def test_the_command_installs_debians_mpi_where_it_is_on_its_own_machine(start, monkeypatch):
    furnished = []
    monkeypatch.setenv(own_machine.INSIDE, "1")
    monkeypatch.setattr(own_machine, "furnish", furnished.append)
    assert start("--only", "openmpi-4.1-torch") == (0, ["openmpi-4.1-torch-2.15"])
    assert furnished == [row_environment.DEBIAN_PACKAGES]


def test_where_there_can_be_no_such_machine_the_row_says_so(start, monkeypatch, tmp_path):
    def run_inside(command):
        raise NoMachine("a machine of its own needs the rights of root")

    monkeypatch.setattr(own_machine, "run_inside", run_inside)
    assert start("--only", "openmpi-4.1-torch") == (1, [])
    record, = Matrix(tmp_path / "out" / "versions.json", "run").results().records()
    assert (record.ended, record.error) == (
        NOT_INSTALLED, "a machine of its own needs the rights of root")


def test_a_machine_that_was_killed_interrupts_the_run(start, monkeypatch):
    monkeypatch.setattr(own_machine, "run_inside", lambda command: -9)
    assert start("--only", "openmpi-4.1")[0] == 130


@pytest.mark.parametrize("folder, mpi, refused", [
    ("/var/tmp/matrix", DEBIAN, True), ("/dev/shm", DEBIAN, True),
    ("/var/tmp/matrix", MPICH, False), ("/home/me/matrix", DEBIAN, False)])
def test_results_are_not_written_to_memory(folder, mpi, refused):
    rows = [Row(TENSORFLOW, "2.21", mpi)]
    if refused:
        with pytest.raises(Unusable, match=f"{folder} is in .*name another folder"):
            check_place(Path(folder), rows)
    else:
        check_place(Path(folder), rows)
