"""What is said of arguments that cannot be used: short, and whose fault it is."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from data_sets import tar, tfrecord

import horovod_opt.io as hio

MOST = 700  # characters of an error, path included
MANY = 100_000


@pytest.fixture
def shards(tmp_path) -> list[Path]:
    return [tar(tmp_path / f"{file}.tar", [(f"{file}{i}.bin", b"x" * i) for i in range(1, 6)])
            for file in "ab"]


@pytest.mark.parametrize("value", [
    np.arange(MANY), list(range(MANY)), {"a": "x" * MANY}, "x\n" * MANY])
@pytest.mark.parametrize("name", [
    "choose", "weights", "groups", "parts", "lacking", "bad", "bad_limit", "deal", "order",
    "threads", "memory", "window", "shards", "chunk_samples"])
def test_no_argument_is_shown_whole(shards, name, value):
    with pytest.raises(hio.InputError if name != "choose" else hio.DataError) as refused:
        hio.open(shards[0], **{name: value})
    assert str(refused.value).startswith(f"{name}=") or "choose= and parts= leave none" in str(
        refused.value)
    assert len(str(refused.value)) < MOST and "\n" not in str(refused.value)


def test_no_pattern_is_shown_whole():
    for pattern in (np.arange(MANY), [*map(str, range(MANY)), 1]):
        with pytest.raises(hio.InputError, match="names no data") as refused:
            hio.open(pattern)
        assert len(str(refused.value)) < MOST


@pytest.mark.parametrize("groups", [[["0"]], "0", ["0"], [[0.0]], [[False]], [[np.False_]], [0]])
def test_ranks_of_groups_are_whole_numbers(shards, groups):
    with pytest.raises(hio.InputError, match="groups=.*remedy: lists of ranks"):
        hio.open(shards[0], groups=groups)
    assert len(hio.open(shards[0], groups=[np.arange(1)])) == 5


def by_key(table: hio.SampleTable) -> list[bool]:
    return [int(key[1:]) < 4 or {}[key] for key in table.keys]


def by_number(table: hio.SampleTable) -> list[float]:
    return [1 / (table.size[i, 0] - 3) if table.keys[i].startswith("b") else 1.0
            for i in range(len(table))]


@pytest.mark.parametrize("name", ["choose", "weights"])
@pytest.mark.parametrize("function, error, at", [
    (by_key, "KeyError", 3), (lambda table: [int(key) for key in table.keys], "ValueError", 0),
    (lambda table: table.labels[0], "TypeError", None),
    (lambda: None, "TypeError", None), (lambda table: table.nothing, "AttributeError", None)])
def test_what_a_users_function_raises_is_its_own(shards, name, function, error, at):
    with pytest.raises(hio.InputError) as refused:
        hio.open(shards, **{name: function})
    text = str(refused.value)
    assert text.startswith(f"{name}=, your function {function.__name__}")
    assert f"raised {error}" in text and f"the table of 10 samples of {shards[0].parent}" in text
    assert type(refused.value.__cause__).__name__ == error
    sample = re.search(r", at sample (\d+) '(\w+)' of (\S+):", text)
    if at is None:
        assert sample is None
    else:
        assert sample.groups() == (str(at), f"a{at + 1}", str(shards[0]))
        assert re.search(rf"\({re.escape(__file__)}, line \d+\)", text)


def test_it_is_told_which_sample_was_asked_for_last(shards):
    with np.errstate(divide="raise"), pytest.raises(
            hio.InputError, match=rf"at sample 7 'b3' of {shards[1]}: divide by zero"):
        hio.open(shards, weights=by_number)


def test_numbers_of_numpy_are_numbers(shards):
    data = hio.open(shards, seed=np.int64(3), window=np.int32(2), shards=np.int64(1),
                    chunk_samples=np.uint8(2), bad_limit=np.float64(0.5), threads=2)
    with data, hio.torch.loader(data, np.int64(2), epochs=np.int64(1), last="drop",
                                workers=np.int64(1), prefetch=np.uint8(3)) as loader:
        assert len(list(loader)) == 5
        assert json.loads(json.dumps(data.state_dict())) == data.state_dict()


@pytest.mark.parametrize("value", ["no", None, 2, np.arange(2)])
@pytest.mark.parametrize("name", ["shuffle", "checksums", "alone", "elastic", "with_info",
                                  "pin_memory"])
def test_a_flag_is_true_or_false(shards, name, value):
    with pytest.raises(hio.InputError, match=f"^{name}=.*; remedy: True or False$"):
        if name in ("with_info", "pin_memory"):
            hio.torch.loader(hio.open(shards), 2, **{name: value})
        hio.open(shards, **{name: value})


def test_flags_of_numpy_and_of_command_lines(shards):
    hio.open(shards, shuffle=np.False_, checksums=1, alone=0, elastic=np.bool_(False)).close()


@pytest.mark.parametrize("value", [True, -1, "5", 2.0, np.arange(2)])
@pytest.mark.parametrize("name", ["batch_size", "global_batch_size", "epochs", "epoch_batches",
                                  "threads", "prefetch", "workers"])
def test_what_is_counted_is_a_whole_number(shards, name, value):
    sizes = {} if "batch_size" in name else {"batch_size": 2}
    with hio.open(shards) as data, pytest.raises(
            hio.InputError, match=f"^{name}=.*; remedy: (give )?a whole number of at least"):
        hio.torch.loader(data, **sizes, **{name: value})


@pytest.mark.parametrize("path", ["C:/data/*.tar", "d:\\data\\a.tar", r"\\server\data\a.tar"])
def test_paths_of_windows(path):
    with pytest.raises(hio.InputError, match="a path of Windows, which has no meaning here"):
        hio.open(path)


def test_a_folder_that_looks_like_a_drive(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "C:").mkdir()
    tfrecord(tmp_path / "C:" / "a.tfrecord", [b"x"] * 3)
    assert len(hio.open("C:/a.tfrecord")) == len(hio.open("C:/*.tfrecord")) == 3


def test_a_folder_that_is_not_there_cannot_be_made_readable(tmp_path):
    with pytest.raises(hio.DataError, match="there is no folder .*/nothing; remedy: correct"):
        hio.open(tmp_path / "nothing" / "*.tar")


@pytest.mark.parametrize("where", ["instead of members", "in a member", "behind the end"])
def test_zeros_are_a_bomb_wherever_they_are(tmp_path, where):
    """All bytes that a file unpacks to count."""
    zeros, text = bytes(64 << 20), io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as archive:
        member = tarfile.TarInfo("a.bin")
        contents = zeros if where == "in a member" else b"x"
        member.size = len(contents)
        archive.addfile(member, io.BytesIO(contents))
    raw = {"instead of members": zeros, "in a member": text.getvalue(),
           "behind the end": text.getvalue() + zeros}[where]
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(raw))
    with pytest.raises(hio.DataError, match=r"a\.tar\.gz: its gzip data unpacks to more than 500 "
                       r"times its \S+ KiB and 16\.00 MiB, so it is taken for a .*bomb; remedy"):
        hio.open(tmp_path / "a.tar.gz")
