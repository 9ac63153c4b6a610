"""Folders that hold no sample for each file, as other tools write them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import data_sets
import pytest

from horovod_opt.io import formats
from horovod_opt.io.errors import DataError

RECORD = data_sets.framed(b"x")


@pytest.fixture
def tar(tmp_path) -> bytes:
    return data_sets.tar(tmp_path / "x", [("1.jpg", b"a")]).read_bytes()


def of_tools(tar: bytes) -> dict[str, tuple[dict[str, bytes], list[str] | None]]:
    """By tool: its folder, and which files the pattern names that the error says."""
    text, shards = b"some text", [f"{i:05d}.tar" for i in range(3)]
    tfds = [f"mnist-train.tfrecord-0000{i}-of-00002" for i in range(2)]
    return {
        "tfds": ({**dict.fromkeys(tfds, RECORD), "features.json": text}, tfds),
        "without extensions": (dict.fromkeys(["train-00000-of-00001", "validation-0-of-1"], RECORD),
                               ["train-00000-of-00001", "validation-0-of-1"]),
        "TFRecord": ({"a.tfrecords": RECORD, "b.tfrecords": RECORD, "a.tfrecords.idx": text},
                     ["a.tfrecords", "b.tfrecords"]),
        "README": ({**dict.fromkeys(shards, tar), "README.md": text}, shards),
        "img2dataset": ({**dict.fromkeys(shards, tar), "00000.parquet": b"PAR1",
                         "00000_stats.json": text}, shards),
        "splits": ({f"{split}/{name}": tar for split in ("train", "val") for name in shards},
                   ["train/" + name for name in shards]),
        "a folder beside": ({**dict.fromkeys(shards, tar), "meta/x.json": text}, shards),
        "names that say nothing": ({f"data{i}.bin": tar for i in range(2)},
                                   ["data0.bin", "data1.bin"]),
        "one among others": ({**{f"{i:03d}.jpg": text for i in range(100)}, "x.tar": tar},
                             ["x.tar"]),
        "compressed": ({"a.tar.gz": text}, ["a.tar.gz"]),
        "compressed otherwise": ({"a.tar.bz2": text}, None),
        "MDS": ({"shard.00000.mds": b"\2\0\0\0", "index.json": text}, None),
        "Arrow": ({"data-00000-of-00001.arrow": b"\xff\xff\xff\xff", "state.json": text}, None),
        "Parquet": ({"a.parquet": b"PAR1"}, None), "FFCV": ({"train.beton": text}, None),
        "Parquet by its content": ({"part-0": b"PAR1" + bytes(20)}, None)}


@pytest.mark.parametrize("tool", of_tools(b""))
def test_a_folder_of_shards_is_refused_with_what_to_open(tmp_path, tar, tool):
    contents, named = of_tools(tar)[tool]
    root = data_sets.files(tmp_path / "da[t]a", contents)
    with pytest.raises(DataError, match=f"of {len(contents)} files .* hold samples themselves"
                       ) as caught:
        formats.find(root)
    if named is None:
        assert re.search("is not read|once they are decompressed", str(caught.value))
        return
    pattern = re.search(r"remedy: the pattern (.*?);", str(caught.value)).group(1)
    assert [os.path.join(formats.find(pattern).root, name) for name in formats.find(pattern).files
            ] == [str(root / name) for name in named]


@pytest.mark.parametrize("subdir", [True, False])
def test_a_folder_of_lmdbs_is_refused_with_what_to_open(tmp_path, subdir):
    root = tmp_path / "data"
    root.mkdir()
    for i in range(2):
        data_sets.environment(root / f"{i}.lmdb", {b"1": b"x"}, subdir=subdir)
    with pytest.raises(DataError, match="hold samples themselves, as 0.lmdb") as caught:
        formats.find(root)
    pattern = re.search(r"remedy: the pattern (.*?);", str(caught.value)).group(1)
    data_files = formats.find(pattern)
    assert data_files.format == "lmdb" and len(data_files.files) == 2


@pytest.mark.parametrize("names", [
    ["a.jpg", "b.png"], ["scan.nii.gz"], ["x.npy", "y.npz", "z.h5"], ["tfrecord.jpg"],
    ["cat/1.jpg", "dog/1.jpg", "README", "labels.csv"],
    ["a/1.jpg", *(f"{i}.txt" for i in range(5))],
    [*(f"a/{i}.jpg" for i in range(200)), "overview.jpg"],
    [*(f"train/{i}.jpg" for i in range(200)), "train.tar"]])
def test_a_folder_of_samples_is_read(tmp_path, names):
    data_sets.files(tmp_path, dict.fromkeys(names, b"some text"))
    assert formats.find(tmp_path).format == "folder"


@pytest.mark.parametrize("beside, inside", [(100, 1), (100, 0), (1, 50), (200, 100), (3, 3)])
@pytest.mark.parametrize("extension", [".jpg", ".bin"])
def test_files_beside_folders_are_refused_with_both_counts(tmp_path, beside, inside, extension):
    (tmp_path / "thumbs").mkdir()
    data_sets.files(tmp_path, {**{f"{i}{extension}": b"x" for i in range(beside)},
                               **{f"thumbs/{i}.jpg": b"x" for i in range(inside)}})
    with pytest.raises(DataError, match=rf"{beside} files \({beside} {extension}\) lie beside 1 "
                                        f"folders with {inside} files, as thumbs: .*remedy"):
        formats.find(tmp_path)


def test_texts_may_be_the_samples(tmp_path):
    data_sets.files(tmp_path, {**{f"{i}.txt": b"x" for i in range(100)}, "thumbs/1.jpg": b"x"})
    with pytest.raises(DataError, match="100 files .* 1 folders with 1 files"):
        formats.find(tmp_path)


@pytest.mark.parametrize("name", ["a.tfrecord.idx", "a.tfrecord.index", "00000.idx"])
def test_an_index_of_another_tool_is_named_as_one(tmp_path, name):
    path = Path(tmp_path, name)
    path.write_bytes(b"0 1020\n1020 1020\n")
    data_sets.tfrecord(tmp_path / "a.tfrecord", [b"x"])
    with pytest.raises(DataError, match=f"{name}: an index of another tool.*; remedy: a pattern"):
        formats.find(tmp_path / "*")


@pytest.mark.parametrize("pattern", ["set[1]/*.tar", "set[1]/x/*.tar", "set[1]"])
def test_brackets_of_a_name_in_a_glob(tmp_path, pattern):
    (tmp_path / "set[1]").mkdir()
    data_sets.tar(tmp_path / "set[1]" / "a[2].tar", [("1.jpg", b"a")])
    if pattern == "set[1]/x/*.tar":
        (tmp_path / "set[1]" / "x").mkdir()
    if pattern == "set[1]":
        with pytest.raises(DataError, match="hold samples themselves"):
            formats.find(tmp_path / pattern)
        return
    with pytest.raises(DataError) as caught:
        formats.find(tmp_path / pattern)
    assert "remedy: [...] in a glob stands for one of the characters in it" in str(caught.value)
    assert re.search(r"/set\[\[\]1\].*\.tar, as glob\.escape\(\) writes it", str(caught.value))
