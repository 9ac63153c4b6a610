"""horovod-opt io index and io verify."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import data_sets
import pytest

from horovod_opt import cli


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def tars(tmp_path):
    for shard in range(2):
        data_sets.tar(tmp_path / f"{shard}.tar", [
            (f"{i}.{part}", f"{shard}-{i}-{part}".encode()) for i in range(3)
            for part in ("jpg", "cls")])
    return str(tmp_path / "*.tar")


def io(capsys, *arguments):
    status = cli.main(["io", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def flip(path, find: bytes):
    """One bit, and neither size nor time."""
    old = path.stat()
    whole = bytearray(path.read_bytes())
    whole[whole.index(find)] ^= 1
    path.write_bytes(whole)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))


def test_it_says_what_was_found(tars, tmp_path, capsys):
    status, out, err = io(capsys, "index", tars)
    assert (status, err) == (0, "")
    assert out.startswith("Indexed: tar, 2 files, 6 samples of jpg, cls, 84 bytes, with checksums\n"
                          f"Kept in: {tmp_path}/.horovod-opt-index-")
    assert io(capsys, "index", tars)[1].startswith("Up to date: tar, 2 files")
    assert io(capsys, "index", tars, "--rebuild")[1].startswith("Indexed: ")


def test_without_checksums_and_then_with(tars, capsys):
    assert "without checksums" in io(capsys, "index", tars, "--no-checksums")[1]
    assert io(capsys, "index", tars, "--no-checksums")[1].startswith("Up to date: ")
    status, out, err = io(capsys, "verify", tars)
    assert status == 0 and "has no checksums" in err
    out = io(capsys, "index", tars)[1]
    assert out.startswith("Indexed: ") and "with checksums" in out


def test_output(tars, tmp_path, capsys):
    place = tmp_path / "my.hoi"
    assert f"Kept in: {place}\n" in io(capsys, "index", tars, "--output", place)[1]
    assert io(capsys, "verify", tars, "--index", place)[0] == 0
    status, _, err = io(capsys, "verify", tars)
    assert status == 1 and "no index; remedy: horovod-opt io index" in err


def test_files_that_the_shell_has_expanded(tars, tmp_path, capsys):
    files = sorted(tmp_path.glob("*.tar"))
    assert "2 files, 6 samples" in io(capsys, "index", *files)[1]
    assert io(capsys, "verify", *reversed(files))[0] == 0


def test_a_stale_index_is_built_again(tars, tmp_path, capsys):
    io(capsys, "index", tars)
    data_sets.tar(tmp_path / "0.tar", [("0.jpg", b"x"), ("0.cls", b"y")])
    status, _, err = io(capsys, "verify", tars)
    assert status == 1 and "0.tar: " in err and "when indexed, now" in err
    assert "4 samples" in io(capsys, "index", tars)[1]


def test_classes(tmp_path, capsys):
    data_sets.files(tmp_path, {"a/1": b"x", "b/2": b"yy"})
    assert "folder, 2 files, 2 samples, 2 classes, 3 bytes" in io(capsys, "index", tmp_path)[1]


def test_data_that_cannot_be_indexed(tmp_path, capsys):
    status, out, err = io(capsys, "index", tmp_path / "*.tar")
    assert (status, out) == (1, "")
    assert err.startswith("horovod-opt io index: ") and "no such files; remedy" in err


def test_damaged_records_are_shown_while_indexing(tmp_path, capsys):
    path = data_sets.tfrecord(tmp_path / "a.tfrecord", [b"one", b"two"])
    flip(path, b"two")
    status, out, err = io(capsys, "index", path)
    assert status == 0 and "1 damaged records: " in err and "record 1, byte 19" in err
    status, out, _ = io(capsys, "verify", path)
    assert status == 1
    assert f"{path}: byte 31, sample 1: checksum " in out and out.endswith("read, 1 errors\n")


def test_verify_lists_each_damaged_part(tars, tmp_path, capsys):
    io(capsys, "index", tars)
    assert io(capsys, "verify", tars)[:2] == (0, "6 samples in 2 files read, 0 errors\n")
    flip(tmp_path / "0.tar", b"0-1-cls")
    flip(tmp_path / "1.tar", b"1-2-jpg")
    status, out, _ = io(capsys, "verify", tars)
    lines = out.splitlines()
    assert status == 1 and len(lines) == 3
    for line, shard, sample in ((lines[0], 0, "sample 1 '1', part 'cls'"),
                                (lines[1], 1, "sample 5 '2', part 'jpg'")):
        assert line.startswith(f"{tmp_path}/{shard}.tar: byte ") and sample in line
    assert "in the index, " in lines[0]


def test_verify_looks_between_the_records(tmp_path, capsys):
    path = data_sets.tar(tmp_path / "a.tar", [("1.jpg", b"x"), ("2.jpg", b"y")])
    io(capsys, "index", path)
    flip(path, b"2.jpg")  # the name, so the header's checksum is wrong
    status, out, _ = io(capsys, "verify", path)
    assert status == 1 and "a.tar: no header of a tar member at byte 1024" in out


@pytest.mark.parametrize("make", [
    lambda root: data_sets.environment(root / "db", {b"1": b"x" * 100, b"2": b"record"}),
    lambda root: data_sets.files(root / "f", {"a": b"record", "b": b"xx"})])
def test_verify_of_other_formats(tmp_path, capsys, make):
    pattern = make(tmp_path)
    io(capsys, "index", pattern)
    assert io(capsys, "verify", pattern)[0] == 0
    flip(pattern / ("data.mdb" if pattern.name == "db" else "a"), b"record")
    status, out, _ = io(capsys, "verify", pattern)
    assert status == 1 and out.count("in the index, ") == 1


def test_the_command_starts_without_numpy():
    process = subprocess.run(
        [sys.executable, "-c", "import json, sys\nfrom horovod_opt import cli\n"
         "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"],
        check=True, capture_output=True, text=True)
    loaded = set(json.loads(process.stdout))
    assert "horovod_opt" in loaded
    assert not loaded & {"numpy", "google_crc32c", "lmdb", "tensorflow", "torch", "mpi4py"}
