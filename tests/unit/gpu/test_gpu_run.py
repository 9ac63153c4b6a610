"""What tests/by_hand/gpu/run refuses, which parts and builds it runs when, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import gpu_machine
import pytest
import run_command
from events import MINUTE
from gpu_builds import NCCL, PLAIN, Build, make, variables
from gpu_machine import Machine, check, why_not_nccl
from gpu_table import FAILED, NOT_RUN, PASSED, Row
from run_command import build_names, parse_arguments, part_builds
from wheel_folder import Manifest, Unusable

ROOT = Path(__file__).parents[3]
MANIFEST = Manifest("3.12", 13, {"horovod-0.28.1.tar.gz": "", "pip-1.whl": "", "rich-1.whl": ""})
MACHINE = Machine(
    python="3.12", torch="2.11.0+cu130", torch_cuda="13.0", nccl="nvidia-nccl-cu13 2.30.7",
    gpus=[{"name": "NVIDIA H200", "capability": "90", "memory_gib": 139.8}], sites=["/site"],
    nvcc="13.0", cuda_home="/usr/local/cuda-13.0", cpu="a CPU", cores=16)
NO_GPU = replace(MACHINE, gpus=[])


# Refusals


@pytest.mark.parametrize("changes, message", [
    ({"python": "3.11"}, "the folder is for Python 3.12, and this is 3.11: "
                         "tests/by_hand/gpu/collect --python 3.11"),
    ({"torch": None}, f"PyTorch is not installed for {sys.executable}: use the Python that has it"),
    ({"gpus": []}, "PyTorch 2.11.0+cu130 sees no GPU; --without-gpu runs what needs none"),
    ({"torch_cuda": "12.8"}, "the folder is for CUDA 13, and PyTorch 2.11.0+cu130 for CUDA 12.8: "
                             "tests/by_hand/gpu/collect --cuda 12"),
    ({"nvcc": None}, "there is no nvcc: put CUDA's compiler on PATH, or its folder into "
                     "HOROVOD_CUDA_HOME"),
    ({"nvcc": "12.9"}, "nvcc is 12.9, and PyTorch 2.11.0+cu130 is for CUDA 13.0: let "
                       "HOROVOD_CUDA_HOME name a toolkit of that version"),
    ({"nccl": None}, "NCCL is missing: pip install nvidia-nccl-cu13"),
])
def test_refused(changes, message):
    check(MACHINE, MANIFEST, without_gpu=False)
    with pytest.raises(Unusable) as caught:
        check(replace(MACHINE, **changes), MANIFEST, without_gpu=False)
    assert str(caught.value) == message


@pytest.mark.parametrize("changes, reason", [
    ({}, ""), ({"torch": "2.13.0+cpu", "torch_cuda": None}, "PyTorch 2.13.0+cpu is not for CUDA"),
    ({"nvcc": None}, "there is no nvcc: "), ({"nccl": None}, "NCCL is missing: ")])
def test_without_gpu_what_is_possible_is_run(changes, reason):
    machine = replace(NO_GPU, **changes)
    check(machine, MANIFEST, without_gpu=True)
    assert why_not_nccl(machine, MANIFEST).startswith(reason)
    assert bool(why_not_nccl(machine, MANIFEST)) == bool(reason)


def test_refusals_end_with_2(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run", str(tmp_path)])
    assert run_command.main() == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path} has no manifest.json")


def test_a_folder_with_something_in_it_is_not_written_to(tmp_path, capsys, monkeypatch):
    (tmp_path / "thesis.pdf").write_text("")
    monkeypatch.setattr(sys, "argv", ["run", str(tmp_path), "--keep", str(tmp_path)])
    assert run_command.main() == 2
    assert capsys.readouterr().err == (
        f"error: {tmp_path} is not empty: name another folder for --keep\n")


@pytest.mark.parametrize("arguments", [["--parts", "9"], ["--minutes", "0"], ["--seconds", "x"]])
def test_refused_options(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        parse_arguments(["folder", *arguments])
    assert caught.value.code == 2
    assert repr(arguments[1]) in capsys.readouterr().err


# The machine


def test_this_machine_is_examined():
    machine = gpu_machine.examine()
    assert machine.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert 1 <= machine.cores <= len(os.sched_getaffinity(0))
    assert machine.cpu


def test_kernels_are_for_the_gpus_that_are_there():
    two = [{"capability": "100"}, {"capability": "90"}, {"capability": "90"}]
    assert replace(MACHINE, gpus=two).capabilities() == "90,100"
    assert NO_GPU.capabilities() == "90"


def test_about_the_machine():
    about = MACHINE.about()
    assert about["gpus"] == MACHINE.gpus
    assert about["torch"] == "2.11.0+cu130"
    assert len(about["date"]) == len("2026-01-02")
    assert "NVIDIA H200 (139.8 GiB); a CPU, 16 cores; Python 3.12, PyTorch 2.11.0" in MACHINE.text()


# Parts and builds


def test_all_parts_on_a_gpu():
    assert part_builds(list("12345678"), False) == [
        ("1", "part_gradients", PLAIN), ("2", "part_nccl", NCCL), ("3", "part_devices", PLAIN),
        ("3", "part_devices", NCCL), ("4", "part_cores", PLAIN), ("5", "part_images", NCCL),
        ("5", "part_images", PLAIN), ("6", "part_scripts", NCCL), ("7", "part_input", PLAIN),
        ("8", "part_ddp", NCCL)]


def test_parts_without_a_gpu():
    assert part_builds(list("12345678"), True) == [
        ("1", "part_gradients", PLAIN), ("2", "part_nccl", PLAIN), ("3", "part_devices", PLAIN),
        ("4", "part_cores", PLAIN), ("6", "part_scripts", PLAIN)]


@pytest.mark.parametrize("parts, without_gpu, builds", [
    ("12345678", False, [PLAIN, NCCL]), ("12345678", True, [PLAIN, NCCL]), ("14", False, [PLAIN]),
    ("2", False, [NCCL]), ("2", True, [PLAIN]), ("3", False, [PLAIN, NCCL])])
def test_builds(parts, without_gpu, builds):
    assert build_names(list(parts), without_gpu) == builds


def test_what_the_builds_are_told():
    plain, nccl = (variables(Build(name, Path("/x")), MACHINE, Path("/f/horovod.tar.gz"), 8)
                   for name in (PLAIN, NCCL))
    assert plain["HOROVOD_OPT_UPSTREAM"] == "/f/horovod.tar.gz"
    assert plain["HOROVOD_OPT_ANY_VERSION"] == "1"
    assert plain["HOROVOD_CUDA_HOME"] == plain["CUDA_HOME"] == "/usr/local/cuda-13.0"
    assert plain["HOROVOD_BUILD_CUDA_CC_LIST"] == "90"
    assert plain["CMAKE_BUILD_PARALLEL_LEVEL"] == "8"
    assert nccl == {**plain, "HOROVOD_GPU_OPERATIONS": "NCCL"}


@pytest.fixture
def installer(tmp_path):
    """A folder whose pip ends with an error, after it has seen the packages of the machine."""
    folder = tmp_path / "wheels"
    (folder / "pip-1.whl" / "pip").mkdir(parents=True)
    (folder / "pip-1.whl" / "pip" / "__main__.py").write_text(
        "import os, sys, thing_of_the_machine\n"
        "print('horovod-opt: error: it is', os.environ['HOROVOD_GPU_OPERATIONS'])\n"
        "sys.exit(3)\n")
    site = tmp_path / "site"
    site.mkdir()
    (site / "thing_of_the_machine.py").write_text("")
    return folder, str(site)


def test_a_build_that_fails_says_why(installer, tmp_path):
    folder, site = installer
    build = Build(NCCL, tmp_path / NCCL)
    row = make(build, replace(MACHINE, sites=[site]), folder, MANIFEST, 1, 10 * MINUTE)
    assert row == Row("", "build with NCCL", "horovod-opt: error: it is NCCL; see "
                      f"{build.log}", FAILED)
    for needed in ("tests/by_hand/gpu/part_runner.py", "horovod_lab/bench/__init__.py",
                   "patches/ports/series"):
        assert (build.source / needed).is_file()
    for name in (".git", ".hypothesis", ".pytest_cache", ".venv", "build"):
        assert not (build.source / name).exists()


def test_a_build_without_an_end(installer, tmp_path):
    """It is ended: by itself it would end well, and not so soon."""
    folder, site = installer
    (folder / "pip-1.whl" / "pip" / "__main__.py").write_text("import time; time.sleep(1000)\n")
    row = make(Build(PLAIN, tmp_path / PLAIN), replace(MACHINE, sites=[site]), folder, MANIFEST, 1,
               1)
    assert (row.outcome, row.value.partition(";")[0]) == (FAILED, "no end")


# The run


class FakePart:
    """A build whose part_runner.py is this program."""

    def __init__(self, folder: Path, program: str):
        self.build = Build(PLAIN, folder)
        self.build.python.parent.mkdir(parents=True)
        self.build.python.symlink_to(sys.executable)
        (self.build.source / "tests" / "by_hand" / "gpu").mkdir(parents=True)
        (self.build.source / "tests" / "by_hand" / "gpu" / "part_runner.py").write_text(program)

    def rows(self, seconds: float = 2 * MINUTE, **options: object) -> list[Row]:
        rows: list[Row] = []
        arguments = parse_arguments(["folder"])
        vars(arguments).update(options)
        run_command.run_part("1", "part_gradients", self.build, MACHINE, arguments,
                             time.monotonic() + seconds, rows.append)
        return rows


ROWS = [Row("1", "sums", "5 steps", PASSED), Row("1", "order", "another", FAILED)]
PRINTS = "".join(f"print({json.dumps(json.dumps(vars(row)))})\n" for row in ROWS)


def test_rows_of_a_part(tmp_path):
    assert FakePart(tmp_path, PRINTS).rows() == ROWS


def test_a_part_that_fails(tmp_path):
    rows = FakePart(tmp_path, PRINTS + "raise SystemExit(3)\n").rows()
    assert rows[:-1] == ROWS
    assert rows[-1] == Row("1", "part_gradients", f"exit status 3; see {tmp_path}/part-1.log",
                           FAILED)


def test_a_part_that_says_nothing_has_failed(tmp_path):
    (row,) = FakePart(tmp_path, "").rows()
    assert row.outcome == FAILED


def test_no_time_is_left_for_a_part(tmp_path):
    (row,) = FakePart(tmp_path, PRINTS).rows(seconds=1)
    assert row == Row("1", "part_gradients", "no time was left", FAILED)


@pytest.mark.parametrize("without_gpu, gpus", [(False, "1"), (True, "0")])
def test_what_a_part_is_told(without_gpu, gpus, tmp_path):
    program = ("import json, sys\n"
               "print(json.dumps({'part': '1', 'what': '', 'outcome': 'passed',"
               " 'value': ' '.join(sys.argv[1:])}))\n")
    (row,) = FakePart(tmp_path, program).rows(without_gpu=without_gpu, steps=7)
    assert row.value.startswith("1 part_gradients --build plain --folder ")
    assert f" --gpus {gpus} " in row.value
    assert " --steps 7 " in row.value
    assert " --cores 16 " in row.value


@pytest.fixture
def whole(monkeypatch, tmp_path):
    """A run of all parts whose builds and parts are made up."""
    monkeypatch.setattr(run_command, "open_sealed", lambda folder: MANIFEST)
    monkeypatch.setattr(sys, "argv", ["run", "folder", "--json", str(tmp_path / "x" / "gpu.json"),
                                      "--keep", str(tmp_path / "kept")])

    def whole(machine: Machine, *options: str, broken: str = "", failing: str = "") -> tuple:
        sys.argv += options
        ran = []

        def build(build, *_):
            return Row("", build.name, "", FAILED if build.name == broken else PASSED)

        def part(number, module, build, machine, arguments, until, show):
            ran.append((number, build.name))
            show(Row(number, module, "", FAILED if number == failing else PASSED))

        monkeypatch.setattr(run_command, "examine", lambda: machine)
        monkeypatch.setattr(run_command.gpu_builds, "make", build)
        monkeypatch.setattr(run_command, "run_part", part)
        status = run_command.main()
        return status, ran, json.loads((tmp_path / "x" / "gpu.json").read_text())

    return whole


def test_all_parts_pass(whole, capsys):
    status, ran, result = whole(MACHINE)
    assert status == 0
    assert [number for number, _ in ran] == ["1", "2", "3", "3", "4", "5", "5", "6", "7", "8"]
    assert result["passed"] is True
    assert result["gpus"][0]["name"] == "NVIDIA H200"
    assert [row["what"] for row in result["rows"][:2]] == [PLAIN, NCCL]
    assert "part  what" in capsys.readouterr().out


def test_a_part_fails(whole, capsys):
    status, _, result = whole(MACHINE, failing="4")
    assert (status, result["passed"]) == (1, False)
    assert "FAILED after" in capsys.readouterr().out


def test_a_build_fails(whole):
    """What needs it fails, too; the rest is run."""
    status, ran, result = whole(MACHINE, broken=NCCL)
    assert status == 1
    assert {build for _, build in ran} == {PLAIN}
    failed = [row["part"] for row in result["rows"] if row["outcome"] == FAILED]
    assert failed == ["", "2", "3", "5", "6", "8"]


def test_without_a_gpu(whole):
    status, ran, result = whole(NO_GPU, "--without-gpu")
    assert status == 0
    assert ran == [(number, PLAIN) for number in "12346"]
    assert [row["part"] for row in result["rows"] if row["outcome"] == NOT_RUN] == [
        "5", "7", "8"]


def test_without_a_gpu_and_cuda(whole):
    status, _, result = whole(replace(NO_GPU, torch_cuda=None), "--without-gpu")
    assert status == 0
    assert result["rows"][0] == {"part": "", "what": "build with NCCL", "outcome": NOT_RUN,
                                 "value": "PyTorch 2.11.0+cu130 is not for CUDA"}


def test_it_runs_as_a_program(tmp_path):
    """Before anything is installed."""
    run = subprocess.run([sys.executable, "-S", str(ROOT / "tests" / "by_hand" / "gpu" / "run"),
                          str(tmp_path)], check=False, text=True, capture_output=True)
    assert run.returncode == 2
    assert run.stderr.startswith(f"error: {tmp_path} has no manifest.json")
