"""`horovod-opt io bench --suite stream`: small runs, and what it refuses."""

from __future__ import annotations

import sys

import pytest
from jobs import HANG_SECONDS

pytest.importorskip("matplotlib")
pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

from horovod_lab.measuring import documents
from horovod_opt import cli

SMALL = ("--suite", "stream", "--rounds", 2, "--seconds", 0.01, "--files", 24, "--file-bytes", 5000,
         "--batch", 8, "--threads", 2, 1, "--prefetch", 1, "--pixels", 16,
         "--timeout", HANG_SECONDS)


def bench(*arguments: object) -> int:
    return cli.main(["io", "bench", *map(str, arguments)])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_small_run(tmp_path, capfd):
    assert bench(*SMALL, "--targets") == 0, capfd.readouterr().err
    document = documents.load(tmp_path / "bench" / "io-stream.json", "io-stream")
    assert [(result["round"], result["series"]) for result in document["measurements"]] == [
        (0, "tf-data"), (0, "hio"), (1, "hio"), (1, "tf-data")]
    for result in document["measurements"]:
        assert sorted((run["threads"], run["pixels"] or 0) for run in result["runs"]) == [
            (1, 0), (1, 16), (2, 0), (2, 16)]
        for run in result["runs"]:
            assert run["images"] == 24 * run["epochs"] and run["steps"] == 3 * run["epochs"]
    assert len(document["targets"]) == 4
    assert (tmp_path / "bench" / "io-stream.png").stat().st_size > 0
    output = capfd.readouterr().out
    assert "with preprocessing, batch 8, prefetch 1" in output and "≥ 0.95 x tf-data" in output
    assert "1.65" in output  # the source's, with 2 threads
    # The same again measures nothing; another --only adds nothing new; other settings are refused.
    assert bench(*SMALL, "--only", "hio") == 0
    assert "Measured before, and kept: 2 of 2 jobs." in capfd.readouterr().err
    assert bench(*SMALL, "--prefetch", 0) == 2
    assert "measured with other prefetch; remedy: another --output" in capfd.readouterr().err


@pytest.mark.parametrize("arguments, message", [
    (("--ranks", 2), "--ranks 2: suite stream is one process; remedy: leave --ranks out"),
    (("--nodes", 2), "--nodes 2: suite stream is of one node; remedy: leave --nodes out"),
    (("--rounds", 1), "--rounds 1: the first round is dropped; remedy: at least 2"),
    (("--threads", 257), "--threads 257; remedy: at most 256"),
    (("--files", 7), "--files 7 is less than a batch of 8; remedy: at least 8"),
    (("--file-bytes", 100), "--file-bytes 100; remedy: from 2000 to 4000000"),
    (("--file-bytes", 10**9), "--file-bytes 1000000000; remedy: from 2000 to 4000000"),
    (("--only", "hio,grain"), "suite stream has no grain; remedy: some of tf-data, hio"),
    (("--suite", "records", "--batch", 8, 16),
     "--batch 8 16: suite records takes one size; remedy: one of them, or --suite stream"),
])
def test_what_cannot_be_measured_is_refused(capsys, arguments, message):
    assert bench(*SMALL, *arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("horovod-opt io bench: ") and message in error


@pytest.mark.parametrize("arguments, message", [
    (("--prefetch", "-1"), "'-1' is not a whole number of at least 0"),
    (("--threads", "0"), "'0' is not a whole number of at least 1"),
    (("--preprocessing", "some"), "invalid choice: 'some'"),
    (("--step-seconds", "0"), "'0' is not a number of seconds above 0"),
])
def test_options_that_are_none_are_refused(capsys, arguments, message):
    with pytest.raises(SystemExit):
        bench(*SMALL, *arguments)
    error = capsys.readouterr().err
    assert message in error and arguments[0] in error


@pytest.mark.parametrize("module, remedy", [
    ("tensorflow", "pip install 'horovod-opt[tensorflow]'"),
    ("sklearn", "pip install 'scikit-learn'")])
def test_what_it_needs_is_named_where_it_is_missing(capsys, monkeypatch, module, remedy):
    monkeypatch.setitem(sys.modules, module, None)
    assert bench(*SMALL) == 2
    error = capsys.readouterr().err
    assert f"--suite stream needs {module}, which {sys.executable} does not have" in error
    assert f"remedy: {remedy}" in error
