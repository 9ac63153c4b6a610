"""Which files a pattern names, and of which format."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

import data_sets
import pytest

from horovod_opt.io import formats
from horovod_opt.io.errors import DataError, InputError


def test_files_are_sorted_whatever_order_the_folder_has(tmp_path, monkeypatch):
    for name in ("t-2.tfrecord", "t-10.tfrecord", "t-1.tfrecord"):
        data_sets.tfrecord(tmp_path / name, [b"x"])
    names = os.listdir(tmp_path)
    results = []
    for order in (sorted(names), sorted(names, reverse=True)):
        monkeypatch.setattr(formats.glob, "glob", lambda pattern, recursive, order=order:
                            [str(tmp_path / name) for name in order])
        results.append(formats.find(tmp_path / "*.tfrecord"))
    assert results[0] == results[1]
    assert results[0].files == ["t-1.tfrecord", "t-10.tfrecord", "t-2.tfrecord"]
    assert (results[0].format, results[0].root) == ("tfrecord", str(tmp_path))


@pytest.mark.parametrize("name", ["train-00000-of-00002", "x.tfrecord", "x.data"])
def test_tfrecord_by_name_or_content(tmp_path, name):
    data_sets.tfrecord(tmp_path / name, [b"abc"])
    assert formats.find(tmp_path / name).format == "tfrecord"


def test_tar_by_content(tmp_path):
    data_sets.tar(tmp_path / "shard", [("1.jpg", b"a")])
    assert formats.find(tmp_path / "shard").format == "tar"


@pytest.mark.parametrize("engine", [0, 1])
def test_lmdb_folder_or_file(tmp_path, engine):
    data_sets.environment(tmp_path / "db", {b"a": b"b"}, lib_version=engine)
    data_sets.environment(tmp_path / "plain", {b"a": b"b"}, subdir=False, lib_version=engine)
    assert formats.find(tmp_path / "db")[:3] == (["data.mdb"], "lmdb", str(tmp_path / "db"))
    assert formats.find(tmp_path / "plain")[:2] == (["plain"], "lmdb")


def test_several_patterns_and_depths_are_one_data_set(tmp_path):
    for name in ("a/1.tar", "b/2.tar", "b/c/3.tar"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        data_sets.tar(tmp_path / name, [("1.jpg", b"a")])
    data_files = formats.find([tmp_path / "b" / "2.tar", str(tmp_path / "a" / "*.tar")])
    assert (data_files.files, data_files.root) == (["a/1.tar", "b/2.tar"], str(tmp_path))
    assert formats.find(tmp_path / "**" / "*.tar").files == ["a/1.tar", "b/2.tar", "b/c/3.tar"]
    twice = [tmp_path / "a" / "1.tar", tmp_path / "a" / "*.tar"]
    assert formats.find(twice).files == ["1.tar"]


def test_a_file_whose_name_looks_like_a_glob(tmp_path):
    data_sets.tfrecord(tmp_path / "a[1].tfrecord", [b"x"])
    assert formats.find(tmp_path / "a[1].tfrecord").files == ["a[1].tfrecord"]


def test_the_root_does_not_depend_on_what_is_found(tmp_path):
    pattern = formats.absolute(str(tmp_path / "*" / "x-*.tar"))
    assert formats.root_of(pattern) == str(tmp_path)


@pytest.mark.parametrize("pattern", ["", [], [""], 3, None, ["a", 3], "a\0b"])
def test_what_is_no_pattern_is_refused(pattern):
    with pytest.raises(InputError, match="names no data"):
        formats.find(pattern)


def test_nothing_found(tmp_path):
    with pytest.raises(DataError, match=r"none-\*\.tar: no such files"):
        formats.find(tmp_path / "none-*.tar")
    with pytest.raises(DataError, match="there is no folder .*nowhere"):
        formats.find(tmp_path / "nowhere" / "*.tar")
    with pytest.raises(DataError, match="empty: no files"):
        (tmp_path / "empty").mkdir()
        formats.find(tmp_path / "empty")


def test_mixed_formats_are_named(tmp_path):
    data_sets.tfrecord(tmp_path / "a.tfrecord", [b"x"])
    data_sets.tar(tmp_path / "b.tar", [("1.jpg", b"a")])
    with pytest.raises(DataError, match=r"a\.tfrecord is tfrecord, .*b\.tar is tar"):
        formats.find(tmp_path / "*")


@pytest.mark.parametrize("name, kind", [
    ("a.tar.gz", "tar"), ("a.tgz", "tar"), ("a.tar.zst", "tar"), ("a.tfrecord.gz", "tfrecord"),
    ("a.tfrecord", "tfrecord"), ("a.gz", "tfrecord"), ("a", "tfrecord")])
def test_compressed_files_are_told_by_name_or_contents(tmp_path, name, kind):
    (tmp_path / name).write_bytes(gzip.compress(data_sets.framed(b"x")))
    assert formats.find(tmp_path / name).format == kind


@pytest.mark.parametrize("name", ["a.mdb", "a.mdb.gz", "a.gz"])
def test_a_compressed_lmdb_is_refused(tmp_path, name):
    root = data_sets.environment(tmp_path / "in", {b"1": b"x"})
    (tmp_path / name).write_bytes(gzip.compress((root / "data.mdb").read_bytes()))
    with pytest.raises(DataError, match=f"{name}: a compressed LMDB, .*remedy: decompress"):
        formats.find(tmp_path / name)


@pytest.mark.parametrize("name", ["a.tar.bz2", "a.txz", "a.tfrecord.lz4"])
def test_files_that_are_compressed_otherwise_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=f"{name}: compressed by .*; remedy: decompress"):
        formats.find(tmp_path / name)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8" * 300)
    with pytest.raises(DataError, match=r"a\.jpg: neither TFRecord, tar nor LMDB"):
        formats.find(tmp_path / "*.jpg")
    (tmp_path / "f").mkdir()
    data_sets.tar(tmp_path / "g.tar", [])
    with pytest.raises(DataError, match="f: a folder among files"):
        formats.find([tmp_path / "f", tmp_path / "g.tar"])


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tfrecord"])
def test_a_folder_of_archives_is_no_folder_of_samples(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=r"remedy: the pattern .*\*\."):
        formats.find(tmp_path)


def test_a_folder_of_compressed_samples_is_one(tmp_path):
    (tmp_path / "scan.nii.gz").write_bytes(b"x")
    assert formats.find(tmp_path).format == "folder"


def test_a_name_that_is_not_utf8(tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"a\xff.tfrecord")
    Path(os.fsdecode(path)).write_bytes(data_sets.framed(b"x"))
    with pytest.raises(DataError, match=r"a\\udcff\.tfrecord': its name is not UTF-8"):
        formats.find(tmp_path / "*.tfrecord")


def test_what_the_user_may_not_read():
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        folder = root / "closed"
        folder.mkdir()
        (folder / "a").write_bytes(b"x")
        file = data_sets.tfrecord(root / "noname", [b"x"])
        file.chmod(0)
        folder.chmod(0)
        try:
            with data_sets.unprivileged():
                for pattern in (file, folder, folder / "*.tar"):
                    with pytest.raises(DataError, match="(noname|closed): cannot be read for user "
                                                        r"id \d+: Permission denied"):
                        formats.find(pattern)
        finally:
            folder.chmod(0o700)
