"""Building and loading: what is found, what is refused, what is stale."""

from __future__ import annotations

import errno
import os
import re
import tempfile
import warnings
from pathlib import Path

import data_sets
import google_crc32c
import numpy as np
import pytest

from horovod_opt.io import index
from horovod_opt.io.errors import Damaged, DamagedRecords, DataError, Missing, Stale
from horovod_opt.io.formats import read_buffer
from horovod_opt.io.index import builder, checksums, files, verification


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def of_each_format(root: Path) -> dict[str, Path]:
    data_sets.tfrecord(root / "t-0.tfrecord", [b"a" * 10, b"", b"b" * 5])
    data_sets.tfrecord(root / "t-1.tfrecord", [b"c" * 20])
    data_sets.tar(root / "a.tar", [("1.jpg", b"x" * 9), ("1.cls", b"1"), ("2.jpg", b"y" * 600),
                                   ("2.cls", b"2")])
    data_sets.environment(root / "db", {b"1": b"x" * 9, b"2": b"y" * 9000})
    data_sets.files(root / "f", {"a/1": b"x" * 9, "b/2": b"y" * 600})
    return {"tfrecord": root / "t-*.tfrecord", "tar": root / "a.tar", "lmdb": root / "db",
            "folder": root / "f"}


NAMES = ("tfrecord", "tar", "lmdb", "folder")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_built_is_loaded(tmp_path, name):
    pattern = of_each_format(tmp_path)[name]
    with pytest.raises(Missing, match=r"no index; remedy: horovod-opt io index"):
        index.load(pattern)
    reports = []
    built = index.build(pattern, progress=lambda done, total: reports.append((done, total)))
    for result in (index.load(pattern), index.load(str(pattern), check=False)):
        assert result.format == name and result.digest == built.digest
        assert result.place == built.place
        for column in ("file", "offset", "size", "crc"):
            assert np.array_equal(getattr(result, column), getattr(built, column))
        assert [result.key(i) for i in range(result.samples)] == [built.key(i)
                                                                  for i in range(result.samples)]
    assert index.check_files(built) == []
    total = int(built.files.sizes.sum())
    assert reports == sorted(reports) and reports[-1] == (total, total)
    assert Path(built.place).parent == Path(built.root)


@pytest.mark.parametrize("name", NAMES)
def test_without_checksums(tmp_path, name):
    pattern = of_each_format(tmp_path)[name]
    result = index.build(pattern, checksums=False)
    assert (result.crc is None) == (name != "tfrecord")
    full = index.build(pattern)
    assert full.crc is not None and full.digest == result.digest


def test_several_files_of_a_format_are_one_data_set(tmp_path):
    tars = [data_sets.tar(tmp_path / f"{name}.tar", members) for name, members in {
        "a": [], "b": [("1.jpg", b"j"), ("1.cls", b"cc")], "c": [("1.cls", b"CCC"), ("1.jpg", b"")],
    }.items()]
    result = index.build(tars)
    assert result.parts == ("jpg", "cls") and result.size.tolist() == [[1, 2], [0, 3]]
    assert result.file.tolist() == [[1, 1], [2, 2]]
    for i, values in enumerate(((b"j", b"cc"), (b"", b"CCC"))):
        assert result.crc[i].tolist() == [google_crc32c.value(value) for value in values]
    data_sets.environment(tmp_path / "x", {b"1": b"x"})
    data_sets.environment(tmp_path / "y", {b"0": b"y", b"2": b"z"})
    two = index.build([tmp_path / "x", tmp_path / "y"])
    assert [two.key(i) for i in range(3)] == ["1", "0", "2"]
    assert [file.name for file in two.files] == ["x/data.mdb", "y/data.mdb"]


def test_tars_whose_samples_differ(tmp_path):
    data_sets.tar(tmp_path / "a.tar", [("1.jpg", b"jj")])
    data_sets.tar(tmp_path / "b.tar", [("2.png", b""), ("2.jpg", b"j")])
    result = index.build(tmp_path / "*.tar")
    assert result.parts == ("jpg", "png") and result.size.tolist() == [[2, 0], [1, 0]]
    assert (result.offset == 0).tolist() == [[False, True], [False, False]]
    assert verification.verify(result) == []


@pytest.mark.parametrize("make", [
    lambda root: data_sets.tfrecord(root / "a.tfrecord", []),
    lambda root: data_sets.tar(root / "a.tar", [("README", b"x")]),
    lambda root: data_sets.environment(root / "db", {})])
def test_an_empty_data_set(tmp_path, make):
    with pytest.raises(DataError, match="1 files hold no sample; remedy: "
                                        "(records in|members with an extension|values in)"):
        index.build(make(tmp_path))


@pytest.mark.parametrize("names", [["c", "a", "b"], ["b", "c", "a"]])
def test_the_identity_is_of_names_sizes_and_counts(tmp_path, names):
    digests = []
    for number, (contents, change) in enumerate([
            ([b"xx", b"y"], None), ([b"xx", b"z"], None), ([b"xx", b"y"], 5), ([b"y", b"xx"], None),
            ([b"xxy"] + [b""] * 0, None)]):
        root = tmp_path / str(number)
        root.mkdir()
        for name in names:
            data_sets.tfrecord(root / f"{name}.tfrecord", contents)
            if change:
                os.utime(root / f"{name}.tfrecord", (change, change))
        digests.append(index.build(root / "*.tfrecord").digest)
    assert digests[0] == digests[1] == digests[2] == digests[3] != digests[4]


def test_the_identity_sees_counts_alone(tmp_path):
    # 32 bytes: two records of no data, or one of 16.
    first_file, second_file = ([data_sets.framed(b"")] * 2, [data_sets.framed(bytes(16))])
    digests = []
    for i, records in enumerate((first_file, second_file)):
        (tmp_path / str(i)).mkdir()
        path = tmp_path / str(i) / "a.tfrecord"
        path.write_bytes(b"".join(records))
        assert path.stat().st_size == 32
        digests.append(index.build(path).digest)
    assert digests[0] != digests[1]


@pytest.mark.parametrize("name", NAMES)
def test_changed_files_are_stale(tmp_path, name):
    pattern = of_each_format(tmp_path)[name]
    built = index.build(pattern)
    path = Path(built.path(len(built.files) - 1))
    old = path.stat()
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns + 1))
    indexed, now = map(re.escape, files.show_times(old.st_mtime_ns, old.st_mtime_ns + 1))
    with pytest.raises(Stale, match=rf"{built.files[-1 + len(built.files)].name}: written at "
                                    rf"{indexed} when indexed, now at {now}; remedy: .*--rebuild"):
        index.load(pattern)
    with open(path, "ab") as file:
        file.write(b"!")
    with pytest.raises(Stale, match=f"size {old.st_size} when indexed, now {old.st_size + 1}"):
        index.load(pattern)
    assert [str(change) for change in index.check_files(built)] == [
        f"{built.files[len(built.files) - 1].name}: size {old.st_size} when indexed, now "
        f"{old.st_size + 1}"]
    path.unlink()
    assert "cannot be read: No such file" in str(index.check_files(built)[0])


def test_files_that_come_and_go_are_stale(tmp_path):
    pattern = of_each_format(tmp_path)["tfrecord"]
    index.build(pattern)
    data_sets.tfrecord(tmp_path / "t-2.tfrecord", [b"x"])
    with pytest.raises(Stale, match=r"t-2\.tfrecord: there, but not indexed"):
        index.load(pattern)
    (tmp_path / "t-2.tfrecord").unlink()
    assert index.load(pattern).samples == 4
    (tmp_path / "t-0.tfrecord").unlink()
    with pytest.raises(Stale, match=r"t-0\.tfrecord: indexed, but no longer there"):
        index.load(pattern)


def test_a_class_without_files_makes_it_stale(tmp_path):
    data_sets.files(tmp_path, {"b/1": b"x"})
    assert index.build(tmp_path).classes == ("b",)
    (tmp_path / "a").mkdir()
    with pytest.raises(Stale, match=r"\['b'\] when indexed, now folder with classes \['a', 'b'\]"):
        index.load(tmp_path)


def test_lmdb_that_is_written_without_a_new_time(tmp_path):
    path = data_sets.environment(tmp_path / "db", {b"1": b"x"})
    index.build(path)
    old = (path / "data.mdb").stat()
    data_sets.environment(path, {b"1": b"y"})
    if (path / "data.mdb").stat().st_size != old.st_size:
        os.truncate(path / "data.mdb", old.st_size)
    os.utime(path / "data.mdb", ns=(old.st_atime_ns, old.st_mtime_ns))
    with pytest.raises(Stale, match=r"data\.mdb: last transaction 1 when indexed, now 2: written "
                                    "during the job"):
        index.load(path)


def test_a_file_that_is_replaced_while_it_is_indexed(tmp_path, monkeypatch):
    path = data_sets.tfrecord(tmp_path / "a.tfrecord", [b"old"])
    scan = builder.tfrecord.scan

    def replaced(*args):
        file_scan = scan(*args)
        data_sets.tfrecord(tmp_path / "b", [b"new!"]).replace(path)
        return file_scan

    monkeypatch.setattr(builder.tfrecord, "scan", replaced)
    with pytest.raises(DataError, match=r"a\.tfrecord: size 19 when indexed, now 20: it changed "
                                        "while it was indexed"):
        index.build(path)
    with pytest.raises(Missing):
        index.load(path)


def test_damaged_records_are_warned_about_and_indexed(tmp_path):
    path = tmp_path / "a.tfrecord"
    whole = bytearray(b"".join(map(data_sets.framed, [b"one", b"two", b"six", b"ten", b"all"])))
    for record in (0, 1, 3, 4):
        whole[19 * record + 12] ^= 1
    path.write_bytes(whole)
    with pytest.warns(DamagedRecords, match=r"4 damaged records: .*record 0, .*record 1, .*record "
                                            r"3, .* \(and 1 more\)"):
        result = index.build(path)
    assert result.crc[0, 0] == google_crc32c.value(b"one")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.build(path, checksums=False)


def test_a_file_that_cannot_be_read():
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as place:
        root = Path(name)
        root.chmod(0o755)
        os.chmod(place, 0o777)
        paths = {"t.tfrecord": data_sets.tfrecord(root / "t.tfrecord", [b"x"]),
                 "a.tar": data_sets.tar(root / "a.tar", [("1.jpg", b"")]),
                 "f": data_sets.files(root / "f", {"1": b"x"}) / "1",
                 "db": data_sets.environment(root / "db", {b"1": b"x"}) / "data.mdb"}
        for path in paths.values():
            path.chmod(0)
        with data_sets.unprivileged():
            for pattern, path in paths.items():
                with pytest.raises(DataError, match=rf"{path}: cannot be read for user id \d+: "
                                                    "Permission denied; remedy"):
                    index.build(root / pattern, place=Path(place, f"{pattern}.hoi"))


def test_an_error_of_the_disk(tmp_path, monkeypatch):
    pattern = of_each_format(tmp_path)["tar"]

    def fail(file, length, offset):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(read_buffer.os, "pread", fail)
    with pytest.raises(DataError, match=r"a\.tar: cannot be read at byte 512: Input/output error"):
        index.build(pattern)


def test_short_reads_are_gone_on_with(tmp_path, monkeypatch):
    pattern = of_each_format(tmp_path)["folder"]
    correct = index.build(pattern).crc
    pread = os.pread
    monkeypatch.setattr(read_buffer.os, "pread", lambda file, length, offset:
                        pread(file, min(length, 7), offset))
    assert np.array_equal(index.build(pattern).crc, correct)


def test_checksums_are_read_in_tasks_of_any_size(tmp_path, monkeypatch):
    data = np.random.default_rng(1).bytes(50_000)
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_bytes(data)
    rows = np.random.default_rng(2).permutation(200)
    file, offset = rows % 2, rows // 2 * 400
    size = np.where(rows % 5, rows % 7 * 57, 0)
    correct = [google_crc32c.value(data[at:at + length]) for at, length in zip(offset, size)]
    for task, cost, block in ((64 << 20, 64 << 10, 4 << 20), (1000, 10, 50), (1, 1, 7)):
        monkeypatch.setattr(checksums, "TASK", task)
        monkeypatch.setattr(checksums, "COST", cost)
        monkeypatch.setattr(checksums.ReadBuffer.__init__, "__defaults__", (block,))
        reports = []
        crc, bad = checksums.checksums([str(path) for path in paths], file, offset, size,
                                       reports.append)
        assert crc.tolist() == correct and bad == [] and sum(reports) == size.sum()


def test_no_index_of_damaged_data_is_left(tmp_path):
    path = data_sets.tfrecord(tmp_path / "a.tfrecord", [b"x"])
    os.truncate(path, 18)
    with pytest.raises(DataError, match="truncated"):
        index.build(path)
    assert os.listdir(tmp_path) == ["a.tfrecord"]


def test_a_damaged_index_is_built_again(tmp_path):
    pattern = of_each_format(tmp_path)["tfrecord"]
    place = Path(index.build(pattern).place)
    place.write_bytes(place.read_bytes()[:-64])
    with pytest.raises(Damaged, match="remedy: horovod-opt io index --rebuild"):
        index.load(pattern)
    index.build(pattern)
    assert index.load(pattern).samples == 4


def test_no_folder_is_made_for_data_that_is_not_there(tmp_path):
    with pytest.raises(DataError):
        index.build(tmp_path / "typo" / "*.tar")
    assert os.listdir(tmp_path) == []


def test_without_checksums_no_record_of_tfrecord_is_read(tmp_path, monkeypatch):
    sizes = [0, 1, 100, 3000, 70_000, 5_000_000]
    path = data_sets.tfrecord(tmp_path / "a.tfrecord", [bytes(size) for size in sizes])
    read, pread = [], os.pread

    def counted(file, length, offset):
        read.append(length)
        return pread(file, length, offset)

    monkeypatch.setattr(read_buffer.os, "pread", counted)
    result = index.build(path, checksums=False)
    assert sum(read) <= 16 * (len(sizes) + 1)
    assert result.size[:, 0].tolist() == sizes and result.crc is not None


def test_times_are_dates():
    assert files.show_times(1_700_000_000 * 10**9 + 5, 1_700_000_060 * 10**9) == [
        "2023-11-14 22:13:20 UTC", "2023-11-14 22:14:20 UTC"]
    assert files.show_times(5, 6) == ["1970-01-01 00:00:00.000000005 UTC",
                                      "1970-01-01 00:00:00.000000006 UTC"]
