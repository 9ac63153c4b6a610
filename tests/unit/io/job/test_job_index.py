"""All ranks of a job have one index, whatever is kept where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from data_sets import files, tfrecord
from thread_ranks import in_job, on_ranks, succeeded

import horovod_opt.io as hio
from horovod_opt.io import index
from horovod_opt.io.index import builder, places
from horovod_opt.io.job import nodes

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
