"""The command `horovod-opt io bench`: a small run, and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jobs import HANG_SECONDS

pytest.importorskip("matplotlib")

from horovod_lab.io import environment
from horovod_lab.io.testbeds.parallel import ParallelFileSystem
from horovod_lab.io.testbeds.testbed import NoTestbed
from horovod_lab.measuring import documents
from horovod_opt import cli
from horovod_opt.arguments import Refusal

SMALL = ("--ranks", 2, "--rounds", 1, "--seconds", 0.3, "--records", 400, "--record-bytes", 200,
         "--batch", 20, "--timeout", HANG_SECONDS)


def bench(*arguments: object) -> int:
    return cli.main(["io", "bench", *map(str, arguments)])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Where there is no .venv-peers."""
    monkeypatch.chdir(tmp_path)


def test_a_small_run_with_what_is_here(tmp_path, capfd):
    pytest.importorskip("torch")
    arguments = ("--only", "hio-tfrecord,py-lmdb,grain", *SMALL, "--targets")
    assert bench(*arguments) == 0
    document = documents.load(tmp_path / "bench" / "io-records.json", "io-records")
    by_series = {result["series"]: result for result in document["measurements"]}
    assert set(by_series) == {"hio-tfrecord", "py-lmdb"}
    for result in by_series.values():
        assert result["samples_per_second"] > 0
        assert (result["missing"], result["repeated"]) == (0, 0)
    assert document["settings"]["ranks_versions"]["lmdb"]
    assert (tmp_path / "bench" / "io-records.png").stat().st_size > 0
    output = capfd.readouterr()
    why = "no grain, array-record: no .venv-peers; remedy: make peers"
    assert f"Grain is not measured: {why}" in output.err
    assert "≥ 0.9 x py-lmdb" in output.out and "hio, TFRecord" in output.out
    # The same again measures nothing: another --only adds to it, other settings are refused.
    again = ("--only", "py-lmdb", *SMALL)
    assert bench(*again) == 0
    assert "Measured before, and kept: 1 of 1 jobs." in capfd.readouterr().err
    assert bench("--only", "py-lmdb", *SMALL, "--batch", 10) == 2
    assert "measured with other batch" in capfd.readouterr().err


def test_a_series_that_fails_is_kept_as_such_and_tried_again(tmp_path, capfd):
    arguments = ("--only", "py-lmdb", *SMALL, "--json", tmp_path / "x.json", "--data", tmp_path)
    (tmp_path / "lmdb-400x200-seed0").mkdir()  # with nothing in it
    assert bench(*arguments) == 2
    result, = documents.load(tmp_path / "x.json", "io-records")["measurements"]
    assert "No such file" in result["failed"]
    assert "1 of 1 jobs failed" in capfd.readouterr().err
    (tmp_path / "lmdb-400x200-seed0").rmdir()
    assert bench(*arguments) == 0
    result, = documents.load(tmp_path / "x.json", "io-records")["measurements"]
    assert "failed" not in result


def test_a_small_run_on_the_parallel_file_system(tmp_path, capfd):
    pytest.importorskip("torch")
    try:
        ParallelFileSystem.check(2)
    except NoTestbed as refusal:
        pytest.skip(str(refusal))
    arguments = ("--stand", "parallel", "--nodes", 2, "--only", "hio-lmdb,py-lmdb-strided",
                 "--rounds", 1, "--seconds", HANG_SECONDS, "--records", 4000,
                 "--record-bytes", 3072, "--batch", 20, "--ranks", 4, "--share", 4, "--targets",
                 "--timeout", HANG_SECONDS)
    assert bench(*arguments) == 0, capfd.readouterr().err
    document = documents.load(tmp_path / "bench" / "io-records-parallel.json", "io-records")
    assert (document["settings"]["stand"], document["settings"]["nodes"]) == ("parallel", 2)
    hio, py_lmdb = document["measurements"]
    size = (tmp_path / "bench/io-data/lmdb-4000x3072-seed0/data.mdb").stat().st_size
    assert py_lmdb["bytes"] > 1.8 * size  # each node reads all of it
    assert hio["bytes"] < 2.2 * size  # each node at most once: its two ranks have one reader
    for result in (hio, py_lmdb):
        assert result["is_over"] and (result["missing"], result["repeated"]) == (0, 0)
        assert result["requests"] > 0 and result["server_cpu_seconds"] > 0
    assert "stand parallel: 4 ranks, nodes: 2" in capfd.readouterr().out
    assert (tmp_path / "bench" / "io-records-parallel.png").stat().st_size > 0


@pytest.mark.parametrize("arguments, message", [
    (("--ranks", 3, "--nodes", 2), "--ranks 3 cannot be shared equally by 2 nodes; remedy: a mul"),
    (("--nodes", 2), "--stand warm is one node, not 2; remedy: --nodes 1"),
    (("--stand", "disk", "--nodes", 2), "--stand disk is the disk of one node, not of 2; remedy"),
    (("--stand", "disk", "--suite", "training"), "suite training reads out of the page cache"),
    (("--records", 100), "is less than a batch of 64 for each of 8 ranks; remedy: at least 512"),
    (("--record-bytes", 12), "--record-bytes 12; remedy: at least 13"),
    (("--only", "grain"), "nothing can be measured: no grain, array-record: no .venv-peers"),
    (("--output", "/proc/1/x"), "/proc/1/x cannot be made"),
])
def test_what_cannot_be_measured_is_refused(capsys, arguments, message):
    assert bench(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("horovod-opt io bench: ") and message in error


def test_a_pipeline_that_is_none_is_refused(capsys):
    with pytest.raises(SystemExit):
        bench("--only", "dali")
    assert "'dali' is not one of hio-tfrecord, hio-lmdb" in capsys.readouterr().err


def environment_with(folder: Path, program: str) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{program}\n")
    python.chmod(0o755)
    return folder


def test_the_environment_of_the_peers_says_what_it_has(tmp_path):
    there = environment.find(environment_with(tmp_path / "peers", f'exec {sys.executable} "$@"'))
    assert there.python == str(tmp_path / "peers" / "bin" / "python")
    assert there.explain_absence(["lmdb"]) == ""
    assert there.explain_absence(["lmdb", "no-such"]) == (
        f"no no-such: it is not in {tmp_path / 'peers'}; remedy: make peers")


@pytest.mark.parametrize("program, message", [
    ("echo '{\"source\": \"other\"}'", "has another horovod_opt.io than this command"),
    ("echo cannot import >&2; exit 1", "cannot be used: cannot import; remedy: make peers"),
    ("exit 0", "cannot be used: it says nothing"),
])
def test_an_environment_that_does_not_fit_is_refused(tmp_path, program, message):
    with pytest.raises(Refusal, match=message):
        environment.find(environment_with(tmp_path / "peers", program))


def test_another_source_has_another_digest(tmp_path, monkeypatch):
    package = tmp_path / "horovod_lab" / "io"
    package.mkdir(parents=True)
    file = package / "environment.py"
    monkeypatch.setattr(environment, "__file__", str(file))
    file.write_text("a = 1\n")
    first = environment.source()
    assert environment.source() == first
    file.write_text("a = 2\n")
    assert environment.source() != first
