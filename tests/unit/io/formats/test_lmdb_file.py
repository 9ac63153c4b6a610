"""The scan of LMDB files."""

from __future__ import annotations

import os
import subprocess
import sys

import data_sets
import lmdb
import pytest

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import lmdb_file

SIZES = (0, 1, 48, 200, 2030, 5000, 100_000)  # in leaf pages and in pages of their own


@pytest.mark.parametrize("engine", [0, 1])
def test_values_are_read_at_their_offsets(tmp_path, engine):
    records = {b"%05d" % i: os.urandom(SIZES[i % len(SIZES)]) for i in range(300)}
    records[b"\xff\x00"] = b"no text"
    path = data_sets.environment(tmp_path / "db", records, lib_version=engine) / "data.mdb"
    result, transaction = lmdb_file.scan(str(path))
    assert transaction == lmdb_file.last_transaction(str(path)) == 1
    keys = [result.keys.raw(i) for i in range(len(result.keys))]
    assert keys == sorted(records)
    assert (result.keys[0], result.keys[300]) == ("00000", "ff00")
    with open(path, "rb") as file:
        places = zip(result.offset[:, 0].tolist(), result.size[:, 0].tolist())
        for key, (offset, size) in zip(keys, places):
            file.seek(offset)
            assert file.read(size) == records[key]


def test_an_environment_that_this_process_has_open(tmp_path):
    path = data_sets.environment(tmp_path / "db", {b"a": b"b"})
    with lmdb.open(str(path), readonly=True):
        assert len(lmdb_file.scan(str(path / "data.mdb"))[0].offset) == 1


def test_nothing_is_written_beside_the_data(tmp_path):
    path = data_sets.environment(tmp_path / "db", {b"a": b"b"})
    (path / "lock.mdb").unlink()
    lmdb_file.scan(str(path / "data.mdb"))
    assert os.listdir(path) == ["data.mdb"]


def test_dupsort_is_refused(tmp_path):
    path = data_sets.environment(tmp_path / "db", {b"a": b"b"}) / "data.mdb"
    whole = bytearray(path.read_bytes())
    for meta in (16, 4096 + 16):  # py-lmdb itself does not make such files
        whole[meta + 24 + 48 + 4] |= 0x04
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"data\.mdb: it is made with DUPSORT"):
        lmdb_file.scan(str(path))


def test_a_sub_database_is_refused(tmp_path):
    with lmdb.open(str(tmp_path), map_size=1 << 20, max_dbs=1) as database:
        with database.begin(write=True) as transaction:
            transaction.put(b"a", b"x" * 48)
        database.open_db(b"inner")
    with pytest.raises(DataError, match=r"data\.mdb: it holds the sub-database b'inner"):
        lmdb_file.scan(str(tmp_path / "data.mdb"))


def test_a_format_that_no_library_reads(tmp_path):
    path = data_sets.environment(tmp_path / "db", {b"a": b"b"}) / "data.mdb"
    whole = bytearray(path.read_bytes())
    for page in (0, 4096):
        whole[page + 20:page + 24] = (9).to_bytes(4, "little")
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"data\.mdb: .*v9.*; remedy"):
        lmdb_file.scan(str(path))


@pytest.mark.parametrize("length", [0, 10, 200, 4096, 4200, 8192, 40_000])
def test_truncated(tmp_path, length):
    records = {b"%05d" % i: bytes(200) for i in range(2000)}
    path = data_sets.environment(tmp_path / "db", records) / "data.mdb"
    os.truncate(path, length)
    reason = "truncated or damaged: LMDB ended with SIGBUS" if length > 8192 else ".*"
    with pytest.raises(DataError, match=rf"data\.mdb: {reason}; remedy"):
        lmdb_file.scan(str(path))


def test_damaged_pages_do_not_end_this_process(tmp_path):
    records = {b"%05d" % i: bytes(200) for i in range(2000)}
    path = data_sets.environment(tmp_path / "db", records) / "data.mdb"
    with open(path, "r+b") as file:
        file.seek(8192)
        file.write(b"\xee" * (path.stat().st_size - 8192))
    with pytest.raises(DataError, match=r"data\.mdb: .*; remedy"):
        lmdb_file.scan(str(path))


def test_written_while_it_is_scanned(tmp_path, monkeypatch):
    path = data_sets.environment(tmp_path / "db", {b"a": b"b"})
    run = subprocess.run

    def write_meanwhile(*args, **options):
        data_sets.environment(path, {b"c": b"d"})
        return run(*args, **options)

    monkeypatch.setattr(subprocess, "run", write_meanwhile)
    with pytest.raises(DataError, match=r"written during the job \(transaction 1, now 2\)"):
        lmdb_file.scan(str(path / "data.mdb"))


def test_the_library_is_missing(tmp_path, monkeypatch):
    path = data_sets.environment(tmp_path / "db", {b"a": b"b"})
    (tmp_path / "lmdb.py").write_text("raise ImportError('no lmdb here')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(DataError, match="no lmdb here; remedy: .*install what is missing"):
        lmdb_file.scan(str(path / "data.mdb"))
