"""LMDBIO's strategies: every record as the baseline gives it, and what each rung removes."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import lmdb
import numpy as np
import pytest
from events import wait_until

from horovod_lab.io.ladder import provenance
from horovod_lab.io.ladder.storage_requests import inversions
from horovod_lab.io.strategies import RUNGS
from horovod_lab.io.strategies.coalescing import Coal, Stag
from horovod_opt import io as hio

COUNT, SIZE, BATCH = 480, 3072, 5
PAGE = 4096
# Ranks, nodes.
SHAPES = [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)]
OTHERS = [name for name in RUNGS if name != "lmdb"]
OF_LMDBIO = [name for name, rung in RUNGS.items() if rung.section]


@pytest.fixture(scope="module")
def records() -> list[bytes]:
    return [os.urandom(SIZE) for _ in range(COUNT)]


@pytest.fixture(scope="module")
def data(tmp_path_factory, records):
    """Five transactions, so that some records are not where their neighbours are."""
    folder = tmp_path_factory.mktemp("data")
    with lmdb.open(str(folder), map_size=1 << 26) as environment:
        for first in range(0, COUNT, 100):
            with environment.begin(write=True) as transaction:
                for number in range(first, min(first + 100, COUNT)):
                    transaction.put(b"%08d" % number, records[number], append=True)
    provenance.write(folder)
    hio.open(str(folder), alone=True).close()  # builds the index
    return folder


def deal(records, ranks: int, iterations: int, batch: int = BATCH) -> list[list[list[bytes]]]:
    """Caffe's order, by rank and iteration."""
    return [[[records[(step * ranks * batch + rank * batch + i) % len(records)]
              for i in range(batch)] for step in range(iterations)] for rank in range(ranks)]


@pytest.mark.parametrize("ranks, nodes", SHAPES)
def test_every_record_is_that_of_the_baseline(data, records, ladder, ranks, nodes):
    iterations = COUNT // (ranks * BATCH)
    base = ladder.run("lmdb", data, ranks, nodes, BATCH, iterations, SIZE)
    assert base.batches == deal(records, ranks, iterations)
    for name in OTHERS:
        outcome = ladder.run(name, data, ranks, nodes, BATCH, iterations, SIZE,
                             iterations_per_read=4)
        assert not outcome.errors, name
        assert outcome.batches == base.batches, name


@pytest.mark.parametrize("name", OF_LMDBIO)
def test_after_the_last_record_comes_the_first(data, records, ladder, name):
    outcome = ladder.run(name, data, 4, 2, 7, 40, SIZE, iterations_per_read=3)
    assert not outcome.errors and outcome.batches == deal(records, 4, 40, 7)


@pytest.mark.parametrize("name", ["lmdb", "lmm", "dm", "dio"])
@pytest.mark.parametrize("sizes", [(10, 200), (1, 3072, 9000, 60_000)])
def test_records_of_several_sizes(tmp_path, ladder, name, sizes):
    """Where nothing is computed from one size."""
    records = [os.urandom(sizes[i % len(sizes)]) for i in range(200)]
    folder = ladder.write(tmp_path / "db", records, 70)
    outcome = ladder.run(name, folder, 4, 2, 5, 10, max(sizes))
    assert not outcome.errors and outcome.batches == deal(records, 4, 10)


@pytest.mark.parametrize("iterations, tokens", [(1, 1), (2, 2), (5, 4), (100, 1)])
def test_coalesced_reads_and_tokens_change_no_record(data, records, ladder, iterations, tokens):
    for name in ("coal", "stag"):
        outcome = ladder.run(name, data, 4, 4, 6, 20, SIZE, iterations_per_read=iterations,
                             tokens=tokens)
        assert not outcome.errors and outcome.batches == deal(records, 4, 20, 6)


@pytest.fixture(scope="module")
def rungs(data, ladder):
    """What each strategy counts with 8 ranks on 4 nodes, batches of 2."""
    return {name: ladder.run(name, data, 8, 4, 2, COUNT // 16, SIZE, iterations_per_read=15)
            for name in OF_LMDBIO}


def test_lmdb_reads_everything_in_every_rank(rungs):
    """But what is behind its last record: to look at others' records is to read them."""
    for rank, counts in enumerate(rungs["lmdb"].counts):
        assert (COUNT - 16) * PAGE < counts["bytes"] < (COUNT + 20) * PAGE, rank
        assert counts["seeking_bytes"] > 6 / 8 * COUNT * PAGE


def test_lmm_reads_everything_once_a_node(rungs):
    readers = rungs["lmm"].counts[::2]
    assert all(counts["seeking_bytes"] > 2 / 4 * COUNT * PAGE for counts in readers)
    assert all(counts["requests"] == 0 for counts in rungs["lmm"].counts[1::2])
    assert rungs["lmm"].sum("bytes") < 0.55 * rungs["lmdb"].sum("bytes")


def test_dm_reads_little_more_than_its_own_records(rungs):
    """And guesses better with each iteration, so that it misses few pages."""
    assert rungs["dm"].sum("bytes") < 0.5 * rungs["lmm"].sum("bytes")
    assert 0 < rungs["dm"].sum("seeking_bytes") < COUNT * PAGE
    readers = rungs["dm"].counts[::2]
    assert all(0 < counts["missed_pages"] < COUNT / 8 for counts in readers)
    assert all(counts["redundant_pages"] < COUNT for counts in readers)


def test_dio_seeks_once_for_all_readers(rungs):
    first, *rest = rungs["dio"].counts[::2]
    assert COUNT * PAGE < first["seeking_bytes"] < (COUNT + 10) * PAGE
    assert all(counts["seeking_bytes"] == 0 for counts in rest)
    assert all(counts["requests"] == COUNT / 4 for counts in rest)


def test_prov_seeks_nothing(rungs):
    assert rungs["prov"].sum("seeking_bytes") == 0
    assert rungs["prov"].sum("requests") == COUNT
    assert rungs["prov"].sum("bytes") == COUNT * SIZE


def test_coal_has_a_20th_of_the_requests(rungs):
    assert 0 < rungs["coal"].sum("requests") <= rungs["prov"].sum("requests") / 20
    # Each reader keeps the records of its own node.
    assert rungs["coal"].counts[0]["exchanged_bytes"] > 0
    assert rungs["coal"].sum("exchanged_bytes") == pytest.approx(COUNT * SIZE * 3 / 4, rel=0.1)


def test_stag_has_a_10th_of_the_inversions(tmp_path, records, ladder, monkeypatch):
    """Whatever happens between the readers: here those whose records come first are the last. With
    coal they fetch when the others have, with stag when the others would."""
    folder = ladder.write(tmp_path / "db", records)  # one transaction: no page is used again
    provenance.write(folder)
    fetch, fetch_by_token = Coal.fetch, Stag.fetch
    reads, tokens = itertools.count(), itertools.count()  # of a process, which is one reader

    def mark(self, name: str, read: int, node: int) -> Path:
        return tmp_path / f"{type(self).__name__}.{name}.{read}.{node}"

    def fetch_last(self, offset):
        read, node = next(reads), self.place.node
        name = "would" if isinstance(self, Stag) else "has"
        for other in range(node + 1, self.place.nodes):
            wait_until(mark(self, name, read, other).exists)
        found = fetch(self, offset)
        mark(self, "has", read, node).touch()
        return found

    def wait_for_token(self, offset):
        mark(self, "would", next(tokens), self.place.node).touch()
        return fetch_by_token(self, offset)

    monkeypatch.setattr(Coal, "fetch", fetch_last)
    monkeypatch.setattr(Stag, "fetch", wait_for_token)
    steps_back = {name: inversions(ladder.run(name, folder, 4, 4, 2, COUNT // 8, SIZE,
                                              iterations_per_read=4).logs)
                  for name in ("coal", "stag")}
    # Of each read three readers are before one that has fetched.
    assert steps_back["coal"] == 3 * COUNT // 8 // 4 and steps_back["stag"] == 0, steps_back


def test_pages_count_when_a_process_first_looks_at_them(rungs):
    for outcome in rungs.values():
        for counts, log in zip(outcome.counts, outcome.logs):
            assert counts["requests"] == log.shape[1]
            assert counts["bytes"] == log[2].sum()


def test_inversions_are_requests_that_go_back():
    logs = [np.array([[1, 5], [0, 8], [4, 4]]), np.array([[2, 3], [40, 4], [4, 4]])]
    assert inversions(logs) == 1  # 0, 40, 4, 8
    assert inversions([np.empty((3, 0), np.int64)]) == 0


def test_a_reader_leaves_the_others_a_message_when_it_cannot_go_on(tmp_path, data, ladder):
    """The provenance is of another file: who reads says so, and who waits that it has ended."""
    folder = ladder.write(tmp_path / "db", [bytes(SIZE)] * 300, 50)
    (folder / "provenance.json").write_bytes((data / "provenance.json").read_bytes())
    for name in ("prov", "coal", "stag"):
        outcome = ladder.run(name, folder, 2, 1, 5, 10, SIZE)
        assert len(outcome.errors) == 2
        assert "records 300, but 480 by its provenance" in outcome.errors[0]
        assert "rank 1: rank 0 has ended" in outcome.errors[1]


@pytest.mark.parametrize("name", OTHERS[:3])
def test_an_empty_database_is_refused(tmp_path, ladder, name):
    with lmdb.open(str(tmp_path)):
        pass
    outcome = ladder.run(name, tmp_path, 1, 1, 1, 1, SIZE)
    assert "it has no records; remedy: write some" in outcome.errors[0]


@pytest.mark.parametrize("name", ["lmm", "prov"])
def test_records_that_do_not_fit_into_the_window(data, ladder, name):
    outcome = ladder.run(name, data, 1, 1, 5, 2, 100)
    assert "5 records have 15360 bytes, but the window was made for records of at most 100; " \
        "remedy: --record-bytes" in outcome.errors[0]


def test_readers_that_are_no_whole_number_of_groups(data, ladder):
    outcome = ladder.run("stag", data, 3, 3, 5, 2, SIZE, tokens=2)
    assert "--tokens 2: 3 readers are no whole number of groups; remedy: one of 1, 3" in \
        outcome.errors[0]


def test_without_mpi4py_the_window_of_mpi_says_so(data, ladder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mpi4py", None)
    outcome = ladder.run("lmm", data, 1, 1, 5, 2, SIZE, shared_buffer="mpi")
    error, = outcome.errors
    assert "--window mpi: no mpi4py here" in error and "remedy: pip" in error


def test_a_file_that_ends_too_early_is_an_error(tmp_path, data, ladder):
    """Behind the checks of the meta page: it was cut meanwhile."""
    from horovod_lab.io.ladder.storage_requests import StorageRequests

    path = tmp_path / "short"
    path.write_bytes(b"abc")
    with open(path, "rb") as file:
        assert StorageRequests().pread(file.fileno(), 2, 1) == b"bc"
        with pytest.raises(OSError, match="ends at byte 3, but a record goes on to byte 6"):
            StorageRequests().pread(file.fileno(), 5, 1)
