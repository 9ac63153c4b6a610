"""Records that check themselves, and their way into each format."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tarfile
from pathlib import Path

import lmdb
import pytest

import horovod_opt.io as hio
from horovod_lab.io.data import data_folder
from horovod_lab.io.data.formats import FILES, FORMATS
from horovod_lab.io.data.records import Records, WrongRecord

RECORDS = Records(100, 50)


def write(form: str, folder: Path) -> Path:
    data_folder.write(form, folder, RECORDS)
    return folder


def in_tfrecord(folder: Path) -> list[bytes]:
    from horovod_opt.io.node_reader.direct import read_directly

    with hio.open(str(folder / "*.tfrecord"), shuffle=False) as data:
        return [read_directly(data.index, number)[0][0] for number in range(len(data))]


def in_lmdb(folder: Path) -> list[bytes]:
    with lmdb.open(str(folder), readonly=True, lock=False) as environment:
        with environment.begin() as transaction:
            return [value for _, value in transaction.cursor()]


def in_tar(folder: Path) -> list[bytes]:
    records = []
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as archive:
            records += [archive.extractfile(member).read() for member in archive]
    return records


def test_records_are_the_same_each_time_and_differ_by_number_and_seed():
    first, again = list(RECORDS), list(RECORDS)
    assert first == again and len(set(first)) == 100
    assert {len(record) for record in first} == {50}
    assert not set(first) & set(Records(100, 50, seed=1))
    assert RECORDS.numbers(first) == list(range(100))


def test_those_beyond_a_block_have_bytes_of_their_own():
    records = list(itertools.islice(Records(2100, 30), 2100))
    assert len({record[8:-4] for record in records}) == 2100


def test_progress_is_told_in_bytes():
    calls = []
    list(Records(2500, 20, progress=lambda done, total: calls.append((done, total))))
    assert calls == [(0, 50_000), (20_000, 50_000), (40_000, 50_000)]


@pytest.mark.parametrize("change, message", [
    (lambda record: record[:-1], "50 bytes came as 49 bytes"),
    (lambda record: memoryview(record), "came as memoryview"),
    (lambda record: record[:20] + bytes([record[20] ^ 1]) + record[21:],
     "number 7 of 100 has a wrong"),
    (lambda record: list(Records(201, 50))[200], "number 200 of 100"),
])
def test_what_was_not_written_is_noticed(change, message):
    with pytest.raises(WrongRecord, match=message):
        RECORDS.numbers([change(list(RECORDS)[7])])


@pytest.mark.parametrize("form, read", [
    ("tfrecord", in_tfrecord), ("lmdb", in_lmdb), ("tar", in_tar)])
def test_a_format_holds_the_records(form, read, tmp_path):
    assert read(write(form, tmp_path / form)) == list(RECORDS)


@pytest.mark.parametrize("form, ending", [("tfrecord", "tfrecord"), ("tar", "tar")])
def test_files_are_equal_runs(form, ending, tmp_path):
    sizes = [path.stat().st_size for path in write(form, tmp_path / form).glob(f"*.{ending}")]
    assert len(sizes) == FILES and max(sizes) < 2 * min(sizes)


def test_data_that_was_not_finished_is_written_again(tmp_path, monkeypatch):
    def fail(folder, records):
        (folder / "half").touch()
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setitem(FORMATS, "tar", fail)
        with pytest.raises(OSError, match="no space"):
            data_folder.write("tar", tmp_path / "tar", RECORDS)
    assert not (tmp_path / "tar").exists()
    assert in_tar(write("tar", tmp_path / "tar")) == list(RECORDS)
    assert [path.name for path in tmp_path.iterdir()] == ["tar"]


def test_the_program_writes_what_it_is_told(tmp_path):
    folder = data_folder.folder_of(tmp_path, "lmdb", RECORDS)
    subprocess.run([sys.executable, "-m", "horovod_lab.io.data.data_folder", "lmdb", folder,
                    "100", "50"], check=True)
    assert in_lmdb(folder) == list(RECORDS)
    assert folder != data_folder.folder_of(tmp_path, "lmdb", Records(100, 51))
