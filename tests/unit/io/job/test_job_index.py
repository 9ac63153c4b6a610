"""All ranks of a job have one index, whatever is kept where."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from data_sets import files, tfrecord
from events import wait_until
from thread_ranks import in_job, on_ranks, succeeded

import horovod_opt.io as hio
from horovod_opt.io import index, step_source
from horovod_opt.io.index import builder, places
from horovod_opt.io.job import job_index, nodes

RECORDS = [bytes([i]) * (50 + i) for i in range(40)]


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def stale(pattern: Path) -> None:
    """Of an earlier copy: other records of the same number, in a file of the same size."""
    tfrecord(pattern, reversed(RECORDS))
    index.build(pattern)
    tfrecord(pattern, RECORDS)
    os.utime(pattern, (1.7e9, 1.7e9))


def torn(pattern: Path) -> None:
    place = Path(index.build(pattern).place)
    place.write_bytes(place.read_bytes()[:-70])


def without_checksums(pattern: Path) -> None:
    index.build(pattern, checksums=False)


@pytest.mark.parametrize("spoil", [stale, torn, without_checksums])
@pytest.mark.parametrize("ranks, node_ranks", [(2, 2), (4, 2), (3, 1)])
def test_ranks_read_the_index_that_their_first_one_has(tmp_path, spoil, ranks, node_ranks):
    path = tfrecord(tmp_path / "a.tfrecord", RECORDS)
    spoil(path)
    _, cached = places.candidates(path)
    index.build(path, place=cached)  # what rank 0 does where it may not write beside the data

    def read(open_data, rank):
        with open_data(path, bad="skip") as data:
            loader = hio.torch.loader(data, 4, collate=list, epochs=1)
            samples = [bytes(sample) for batch in loader for sample in batch]
            return data.index.fingerprint, samples, dict(data.holes)

    results = succeeded(in_job(ranks, read, node_ranks))
    assert len({fingerprint for fingerprint, _, _ in results}) == 1
    assert sorted(sample for _, samples, _ in results for sample in samples) == RECORDS
    assert all(not holes for _, _, holes in results)


def test_ranks_that_open_by_themselves_go_on_with_one(tmp_path):
    """As in an elastic job: they meet when they make a loader."""
    path = tfrecord(tmp_path / "a.tfrecord", RECORDS)
    mine = tmp_path / "mine.hoi"
    index.build(path, place=mine)
    os.utime(path, (1.7e9, 1.7e9))
    index.build(path)  # the same but for the time

    def meet(ranks):
        data = hio.open(path, elastic=True, index=mine if ranks.rank else None)
        before = data.index.fingerprint
        data.meet(ranks, nodes.find(ranks))
        data.close()
        return before, data.index.fingerprint

    before, after = zip(*succeeded(on_ranks(2, meet)))
    assert after[0] == after[1] == before[0]


def test_checksums_are_read_once_where_those_beside_the_data_lack(tmp_path, monkeypatch, capsys):
    folder = files(tmp_path / "data", {"1.bin": b"x" * 100})
    index.build(folder, checksums=False)
    write = places._write

    def read_only(place, pieces):
        if place.parent == folder:
            raise PermissionError(13, "Permission denied")
        write(place, pieces)

    monkeypatch.setattr(places, "_write", read_only)
    hio.open(folder).close()
    assert "has no checksums: 100 bytes are read for them now, once" in capsys.readouterr().err
    monkeypatch.setattr(builder, "_scan", lambda *_: pytest.fail("it is built again"))
    with hio.open(folder) as data:
        assert data.index.crc is not None
    assert capsys.readouterr().err == ""


def test_what_takes_long_is_said(tmp_path, capsys):
    folder = files(tmp_path / "data", {"1.bin": b"x" * 100})
    hio.open(folder).close()
    assert ("built now, once, and all data read, for its checksums; checksums=False goes without"
            in capsys.readouterr().err)


def test_a_node_that_fails_ends_what_the_others_build(tmp_path, monkeypatch):
    """It would take for ever: the build goes on as long as its progress is heard of."""
    path = tfrecord(tmp_path / "a.tfrecord", RECORDS)
    opened = job_index.indexes.build

    def build(pattern, checksums, progress, place, keep_truncated):
        if place == tmp_path / "1.hoi":
            raise hio.DataError("this node has no such file")
        if place == tmp_path / "0.hoi":
            return opened(pattern, checksums, progress, place)
        while True:
            progress(0, 1)

    def other_files(*_, **__):
        raise hio.Missing("not on this node")

    monkeypatch.setattr(job_index, "indexes", SimpleNamespace(
        **{**vars(job_index.indexes), "build": build, "load_same": other_files}))
    results = in_job(3, lambda open_data, rank: open_data(path, index=tmp_path / f"{rank}.hoi"), 1)
    assert {str(error) for error in results} == {"rank 1: this node has no such file"}


@pytest.mark.parametrize("fails", ["Reader", "Member"])
@pytest.mark.parametrize("failing", [0, 2])
def test_a_node_that_fails_leaves_no_reader_on_the_others(tmp_path, monkeypatch, fails, failing):
    path = tfrecord(tmp_path / "a.tfrecord", RECORDS)
    real, calls, before = getattr(step_source, fails), itertools.count(), threading.enumerate()

    def make_or_fail(*args, **options):
        if next(calls) == failing:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(*args, **options)

    def make(open_data, rank):
        with open_data(path) as data, pytest.raises(hio.DataError, match=r"rank \d: .*Too many"):
            step_source.StepSource(data, 2, None, "spread")
        return True

    monkeypatch.setattr(step_source, fails, make_or_fail)
    assert succeeded(in_job(3, make, 1)) == [True] * 3
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread not in before])
