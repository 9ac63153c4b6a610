"""`horovod-opt io bench --suite lmdb`: a small run, and what it refuses."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from horovod_lab.io.strategies import RUNGS
from horovod_lab.io.testbeds.parallel import ParallelFileSystem
from horovod_lab.io.testbeds.testbed import NoTestbed
from horovod_lab.measuring import documents
from horovod_opt import cli

SMALL = ("--suite", "lmdb", "--ranks", 4, "--nodes", 2, "--rounds", 1, "--records", 400,
         "--record-bytes", 3000, "--coalesce-bytes", 1 << 18, "--timeout", 60)


def bench(*arguments: object) -> int:
    return cli.main(["io", "bench", *map(str, arguments)])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_small_run_of_all_strategies(tmp_path, capfd):
    assert bench(*SMALL, "--targets") == 0
    saved = documents.load(tmp_path / "bench" / "io-lmdb.json", "io-lmdb")
    found = {one["series"]: one for one in saved["measurements"]}
    assert list(found) == list(RUNGS)
    assert {one["samples"] for one in found.values()} == {400}
    assert found["lmdb"]["requests"] > found["lmm"]["requests"] > found["prov"]["requests"] == 400
    assert found["prov"]["seeking_bytes"] == 0 < found["lmm"]["seeking_bytes"]
    assert found["coal"]["requests"] <= 400 / 20
    assert found["stag"]["inversions"] == 0
    # Of its records a node needs four, and not the next four. They are in the page cache, unless
    # the kernel has taken them back since.
    hio = found["hio"]
    assert hio["node_cached_bytes"] > 0
    assert 400 * 3000 <= hio["node_cached_bytes"] + hio["node_bytes_read"] < 400 * 4096
    assert (tmp_path / "bench" / "io-lmdb.png").stat().st_size > 0
    output = capfd.readouterr().out
    assert "≤ 0 bytes" in output and "≤ 0.05 x prov" in output
    # The same again measures nothing.
    assert bench(*SMALL) == 0
    assert "Measured before, and kept: 8 of 8 jobs." in capfd.readouterr().err


def test_the_window_of_mpi(tmp_path, capfd):
    pytest.importorskip("mpi4py", reason="needs mpi4py")
    assert bench(*SMALL, "--only", "lmm,stag", "--window", "mpi") == 0
    saved = documents.load(tmp_path / "bench" / "io-lmdb.json", "io-lmdb")
    assert [one["samples"] for one in saved["measurements"]] == [400, 400]


def test_a_strategy_that_fails_says_why(tmp_path, capfd):
    assert bench(*SMALL, "--only", "lmdb") == 0
    folder, = (tmp_path / "bench" / "io-data").glob("lmdb-*")
    text = (folder / "provenance.json").read_text().replace('"records": 400', '"records": 300')
    (folder / "provenance.json").write_text(text)
    assert bench(*SMALL, "--only", "prov") == 2
    _, one = documents.load(tmp_path / "bench" / "io-lmdb.json", "io-lmdb")["measurements"]
    assert "records 400, but 300 by its provenance" in one["failed"]


@pytest.mark.parametrize("arguments, message", [
    (("--records", 7), "is less than a batch of 2 for each of 4 ranks; remedy: at least 8"),
    (("--record-bytes", 12), "--record-bytes 12; remedy: at least 13"),
    (("--ranks", 3), "--ranks 3 cannot be shared equally by 2 nodes; remedy: a multiple of 2"),
    (("--tokens", 3), "--tokens 3: the readers of 2 nodes are no whole number of groups; remedy"),
    (("--only", "prov,grain"), "suite lmdb has no grain; remedy: some of lmdb, lmm"),
])
def test_what_cannot_be_measured_is_refused(capsys, arguments, message):
    assert bench(*SMALL, *arguments) == 2
    assert message in capsys.readouterr().err


def test_strategies_are_of_no_other_suite(capsys):
    assert bench("--only", "prov") == 2
    assert "suite records has no prov" in capsys.readouterr().err


def test_what_reaches_the_storage_of_several_nodes(tmp_path):
    """Cold and behind one server, which counts by itself."""
    try:
        ParallelFileSystem.check(4)
    except NoTestbed as missing:
        pytest.skip(str(missing))
    assert bench("--suite", "lmdb", "--stand", "parallel", "--share", 4, "--only",
                 "lmm,prov,coal,stag", "--ranks", 4, "--nodes", 4, "--batch", 4, "--rounds", 1,
                 "--records", 2000, "--coalesce-bytes", 1 << 19, "--timeout", 60) == 0
    saved = documents.load(tmp_path / "bench" / "io-lmdb-parallel.json", "io-lmdb")
    stored = {one["series"]: one["stand"] for one in saved["measurements"]}
    size = 2000 * 4096
    assert stored["lmm"]["bytes"] > 3.5 * size  # each node reads it all
    assert size < stored["stag"]["bytes"] < 1.1 * size
    assert stored["coal"]["requests"] < stored["prov"]["requests"] / 10
    assert stored["stag"]["inversions"] < stored["coal"]["inversions"] / 3
