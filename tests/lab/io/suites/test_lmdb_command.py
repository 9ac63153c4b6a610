"""`horovod-opt io bench --suite lmdb`: a small run, and what it refuses."""

from __future__ import annotations

import pytest
from events import keep_cached
from jobs import HANG_SECONDS

pytest.importorskip("matplotlib")

from horovod_lab.io.data import data_folder
from horovod_lab.io.data.records import Records
from horovod_lab.io.strategies import RUNGS
from horovod_lab.io.testbeds.parallel import ParallelFileSystem
from horovod_lab.io.testbeds.testbed import NoTestbed
from horovod_lab.measuring import documents
from horovod_opt import cli

SMALL = ("--suite", "lmdb", "--ranks", 4, "--nodes", 2, "--rounds", 1, "--records", 400,
         "--record-bytes", 3000, "--coalesce-bytes", 1 << 18, "--timeout", HANG_SECONDS)


def bench(*arguments: object) -> int:
    return cli.main(["io", "bench", *map(str, arguments)])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_small_run_of_all_strategies(tmp_path, capfd):
    records = Records(400, 3000)
    folder = data_folder.folder_of(tmp_path / "bench" / "io-data", "lmdb", records)
    data_folder.write("lmdb", folder, records)
    with keep_cached(folder / "data.mdb"):
        assert bench(*SMALL, "--targets") == 0
    document = documents.load(tmp_path / "bench" / "io-lmdb.json", "io-lmdb")
    by_series = {result["series"]: result for result in document["measurements"]}
    assert list(by_series) == list(RUNGS)
    assert {result["samples"] for result in by_series.values()} == {400}
    requests = {name: result["requests"] for name, result in by_series.items()}
    assert requests["lmdb"] > requests["lmm"] > requests["prov"] == 400
    assert by_series["prov"]["seeking_bytes"] == 0 < by_series["lmm"]["seeking_bytes"]
    assert by_series["coal"]["requests"] <= 400 / 20
    assert by_series["stag"]["inversions"] == 0
    # Of its records a node needs four, and not the next four. They are in the page cache.
    hio = by_series["hio"]
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
    document = documents.load(tmp_path / "bench" / "io-lmdb.json", "io-lmdb")
    assert [result["samples"] for result in document["measurements"]] == [400, 400]


def test_a_strategy_that_fails_says_why(tmp_path, capfd):
    assert bench(*SMALL, "--only", "lmdb") == 0
    folder, = (tmp_path / "bench" / "io-data").glob("lmdb-*")
    text = (folder / "provenance.json").read_text().replace('"records": 400', '"records": 300')
    (folder / "provenance.json").write_text(text)
    assert bench(*SMALL, "--only", "prov") == 2
    _, result = documents.load(tmp_path / "bench" / "io-lmdb.json", "io-lmdb")["measurements"]
    assert "records 400, but 300 by its provenance" in result["failed"]


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
    except NoTestbed as refusal:
        pytest.skip(str(refusal))
    assert bench("--suite", "lmdb", "--stand", "parallel", "--share", 4, "--only",
                 "lmm,prov,coal,stag", "--ranks", 4, "--nodes", 4, "--batch", 4, "--rounds", 1,
                 "--records", 2000, "--coalesce-bytes", 1 << 19, "--timeout", HANG_SECONDS) == 0
    document = documents.load(tmp_path / "bench" / "io-lmdb-parallel.json", "io-lmdb")
    sizes = {result["series"]: result["stand"] for result in document["measurements"]}
    size = 2000 * 4096
    assert sizes["lmm"]["bytes"] > 3.5 * size  # each node reads it all
    assert size < sizes["stag"]["bytes"] < 1.1 * size
    assert sizes["coal"]["requests"] < sizes["prov"]["requests"] / 10
    assert sizes["stag"]["inversions"] < sizes["coal"]["inversions"] / 3
