"""Paths, globs and braces that users bring from elsewhere."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import data_sets
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thread_ranks import in_job

from horovod_opt.io import formats
from horovod_opt.io.errors import DataError, InputError
from horovod_opt.io.formats import patterns

TEXTS = st.text("ab1/.-", max_size=3)
BRACES = st.recursive(
    st.builds("{{{}..{}}}".format, st.integers(0, 12), st.integers(0, 12))
    | st.builds("{{{:03d}..{:03d}..{}}}".format, st.integers(0, 12), st.integers(0, 12),
                st.integers(1, 4))
    | st.builds("{{{},{}}}".format, TEXTS, TEXTS),
    lambda inner: st.builds("{{{}{},{}}}".format, TEXTS, inner, TEXTS)
    | st.builds("{}{}{}".format, inner, TEXTS, inner), max_leaves=4)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.builds("x{}{}".format, TEXTS, BRACES))
def test_braces_are_those_of_a_shell(text):
    shell = subprocess.run(["bash", "-c", f"printf '%s\\n' {text}"], capture_output=True, text=True,
                           check=True)
    assert list(patterns.expand(text)) == shell.stdout.splitlines()


@pytest.mark.parametrize("text", ["{a}", "{}", "{1..}", "{a..c}", "a{b", "}a{", "{1...3}"])
def test_braces_that_stand_for_nothing_are_left_as_they_are(text):
    assert list(patterns.expand(text)) == [text]


def test_ranges_of_shards_are_one_data_set(tmp_path):
    for i in range(12):
        data_sets.tfrecord(tmp_path / f"train-{i:03d}.tfrecord", [b"x"])
    names = [f"train-{i:03d}.tfrecord" for i in range(12)]
    assert formats.find(f"{tmp_path}/train-{{000..011}}.tfrecord").files == names
    assert formats.find(f"{tmp_path}/train-{{003,00{{5..6}}}}.tf*").files == [
        names[3], *names[5:7]]
    assert formats.find([f"{tmp_path}/train-{{000..001}}.tfrecord",
                         Path(f"{tmp_path}/train-01*.tfrecord")]).files == [*names[:2], *names[10:]]
    with pytest.raises(DataError, match=r"train-012\.tfrecord: no such files"):
        formats.find(f"{tmp_path}/train-{{000..012}}.tfrecord")


def test_a_name_with_braces_is_itself(tmp_path):
    data_sets.tfrecord(tmp_path / "x{1..2}.tfrecord", [b"x"])
    assert formats.find(tmp_path / "x{1..2}.tfrecord").files == ["x{1..2}.tfrecord"]


def test_braces_for_too_many_paths():
    with pytest.raises(InputError, match="more than 1000000 paths; remedy: smaller ranges"):
        formats.find("/data/{0..9999}/{0..9999}.tar")


@pytest.mark.parametrize("pattern, text", [
    ("s3://bucket/x-*.tar", "s3://bucket/.*: files at s3: addresses are not fetched, .*; "
                            "remedy: copy them to a folder"),
    ("https://host/a.tar", "files at https: addresses are not fetched"),
    ("GS://bucket/{000..012}.tar", "files at gs: addresses"),
    ("hdfs://host:9000/a", "files at hdfs: addresses"),
    ("pipe:cat /data/a.tar", "a program's output can be read once, .*; remedy: let the program "
                             "write files"),
    ("file:///data/a.tar", "remedy: /data/a.tar$"),
    ("file:/data/a.tar", "remedy: /data/a.tar$")])
@pytest.mark.parametrize("kind", [str, Path, lambda pattern: ["/data/a.tar", pattern]])
def test_what_is_elsewhere_is_named(pattern, text, kind):
    with pytest.raises(InputError, match=text):
        formats.find(kind(pattern))


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_ranks_say_so(ranks):
    results = in_job(ranks, lambda open_data, rank: open_data("s3://bucket/a-{0..9}.tar"))
    assert {(type(result), str(result)) for result in results} == {
        (InputError, str(results[0]))} and "copy them to a folder" in str(results[0])


def test_a_folder_that_looks_like_an_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("s3:/bucket")
    data_sets.tfrecord(tmp_path / "s3:/bucket/a.tfrecord", [b"x"])
    assert formats.find("s3:/bucket/a.tfrecord").files == ["a.tfrecord"]


@pytest.mark.parametrize("parts", [
    ("a.tar", "b.tar"), ("{folder}/a.tar", "b.tar"), ("{folder}/a.tar", "{folder}/a.tar"),
    ("{folder}/nowhere/a.tar", "{folder}/a.tar"), ("{folder}/*.tar", "{folder}/*.tar"),
    ("{folder}/a-{{0..3}}.tar", "{folder}/a-{{4..7}}.tar"), ("~/a.tar", "s3://bucket/b.tar"),
    ("a.tar", "", "b.tar")])
def test_several_patterns_in_one_as_webdataset_has_them(tmp_path, parts):
    data_sets.tar(tmp_path / "a.tar", [("1.jpg", b"a")])
    given = [part.format(folder=tmp_path) for part in parts]
    with pytest.raises(InputError) as raised:
        formats.find("::".join(given))
    assert str(raised.value).endswith(f"remedy: a list of paths or globs: {given}")


def test_a_name_that_looks_like_several_patterns(tmp_path):
    (tmp_path / "run::7").mkdir()
    data_sets.tar(tmp_path / "run::7" / "a.tar", [("1.jpg", b"a")])
    for name in ("a.tar", "*.tar", "{a,a}.tar"):
        assert formats.find(f"{tmp_path}/run::7/{name}").files == ["a.tar"]
