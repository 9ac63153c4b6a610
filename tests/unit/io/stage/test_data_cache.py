"""hio.open(..., stage_in=): data of other places, on this node's disk, within a bound."""

from __future__ import annotations

import os
import re

import data_sets
import pytest
import servers
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt import cli
from horovod_opt.io.errors import DataError, InputError
from horovod_opt.io.pack.listing import list_source
from horovod_opt.io.pack.packer import pack
from horovod_opt.io.pack.plan import Options
from horovod_opt.io.stage.data_cache import addresses

FILES = {f"{name}/{i}.jpg": f"{name} {i} ".encode() * 99 for name in "ab" for i in range(20)}


@pytest.fixture(autouse=True)
def _unsynced(unsynced):
    """Nothing crashes here."""


@pytest.fixture
def root(tmp_path):
    """A pack, tars, and TFRecord files in two folders."""
    source = data_sets.files(tmp_path / "source", FILES)
    root = tmp_path / "served"
    pack(list_source([str(source)], None, 0), root / "pack", Options(24 << 10))
    (root / "tars").mkdir()
    for i in range(3):
        data_sets.tar(root / "tars" / f"{i}.tar", [(f"{k}.jpg", b"x" * k) for k in range(9)])
        (root / "records" / str(i)).mkdir(parents=True)
        data_sets.tfrecord(root / "records" / str(i) / "a.tfrecord", [b"r" * k for k in range(9)])
    return root


@pytest.mark.parametrize("kind", servers.KINDS)
def test_from_everywhere(root, tmp_path, monkeypatch, kind):
    patterns = {"pack": "pack", "tar": "tars/*.tar", "tfrecord": "records/**/*.tfrecord"}
    if kind == "http":  # which lists nothing
        patterns.update(tar="tars/1.tar", tfrecord="records/1/a.tfrecord")
    with servers.served(kind, root, monkeypatch) as address:
        for form, pattern in patterns.items():
            with hio.open(f"{address}/{pattern}", stage_in=tmp_path / "cache") as data:
                assert data.index.format == form
                assert len(data) == (40 if form == "pack" else 9 if kind == "http" else 27)
                assert data.index.root.startswith(f"{tmp_path}/cache/")
        names = sorted(path.name for path in (tmp_path / "cache").iterdir())
        assert len(names) == 3 and any(name.startswith("pack-") for name in names)


def test_the_second_time_nothing_is_fetched(root, tmp_path):
    with servers.web_server(root) as (address, requests):
        for pattern in (f"{address}/pack", f"{address}/tars/{{2,0}}.tar"):
            states = []
            for _ in range(2):
                with hio.open(pattern, stage_in=tmp_path / "cache") as data:
                    states.append(data.state_dict())
                    files = len(data.index.files)
                fetched = [name for name, _, _ in requests if name.endswith(".tar")]
                del requests[:]
                assert len(fetched) == (files if len(states) == 1 else 0)
            assert states[0] == states[1]


def test_files_that_change_are_fetched_again(root, tmp_path):
    def sizes():
        with hio.open(f"{root}/tars/*.tar", stage_in=tmp_path / "cache") as data:
            return [data.index.files[i].size for i in range(len(data.index.files))], len(data)

    before = sizes()
    data_sets.tar(root / "tars" / "1.tar", [("1.jpg", b"y" * 50_000)])
    assert sizes()[1] == 19 and sizes() != before
    (root / "tars" / "0.tar").unlink()
    assert sizes()[1] == 10
    cache, = (tmp_path / "cache").iterdir()
    assert sorted(path.name for path in cache.glob("*.tar")) == ["1.tar", "2.tar"]


@pytest.mark.parametrize("ranks, node_ranks", [(2, 2), (3, 2)])
def test_one_rank_of_a_node_fetches(root, tmp_path, ranks, node_ranks):
    with servers.web_server(root) as (address, requests):
        lengths = succeeded(in_job(ranks, lambda open, rank: len(open(
            f"{address}/pack", stage_in=tmp_path / "node")), node_ranks))
        assert lengths == [40] * ranks
    tars = [name for name, _, _ in requests if name.endswith(".tar")]
    assert len(tars) == len(set(tars))


def test_a_bound(root, tmp_path, capsys):
    size = sum(path.stat().st_size for path in (root / "pack").iterdir())
    hio.open(f"{root}/tars/*.tar", stage_in=tmp_path / "c", stage_limit=size + 10_000).close()
    with pytest.raises(DataError, match=r"stage_limit=.*: .*/pack has .* KiB, and in .*/c is "
                       r"tar-.* \(.* KiB\); remedy: a larger"):
        hio.open(f"{root}/pack", stage_in=tmp_path / "c", stage_limit=size + 10_000)
    there, = [path for path in (tmp_path / "c").iterdir() if any(path.glob("*.tar"))]
    assert cli.main(["io", "stage", "--remove", "--to", str(there)]) == 0 and not there.exists()
    hio.open(f"{root}/pack", stage_in=tmp_path / "c", stage_limit=f"{size + 10_000}").close()
    with pytest.raises(InputError, match="stage_limit='much'"):
        hio.open(f"{root}/pack", stage_in=tmp_path / "c", stage_limit="much")


@pytest.mark.parametrize("options, text", [
    ({"stage_in": "{c}"}, "no such files; remedy: correct it, or give a folder"),
    ({"stage_limit": "1GiB"}, "stage_limit='1GiB' without stage_in; remedy")])
def test_arguments(root, tmp_path, options, text):
    options = {name: value.format(c=tmp_path / "c") for name, value in options.items()}
    for ranks in (1, 2):
        results = in_job(ranks, lambda open, rank: open(f"{root}/none", **options))
        assert len({str(error) for error in results}) == 1
        assert isinstance(results[0], DataError) and re.search(text, str(results[0]))


@pytest.mark.parametrize("pattern, text", [
    ("pipe:cat a.tar", "remedy: let the program write files"),
    ("{root}/a.tar::{root}/b.tar", r"a list of paths or globs: \['.*/a.tar', '.*/b.tar'\]"),
    ("https://h/a-{{0..3}}.tar::https://h/b.tar", "a list of paths or globs: .*a-{{0..3}}.tar'"),
    ("s3://b/a.tar::s3://b/b.tar::s3://b/c.tar", "a list of paths or globs: ")])
def test_what_webdataset_would_take(root, tmp_path, pattern, text):
    with pytest.raises(InputError, match=text.replace("{{", "{").replace("}}", "}")):
        hio.open(pattern.format(root=root), stage_in=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_an_address_within_another_is_one():
    address = "zip://a.tar::s3://bucket/a.zip"
    assert addresses(address) == [address]


def test_ranks_differ(root, tmp_path):
    results = in_job(2, lambda open, rank: open(f"{root}/pack", stage_in=tmp_path / str(rank)))
    assert all(isinstance(error, InputError) and "stage_in differs between the ranks" in str(error)
               for error in results)
    assert not os.path.exists(tmp_path / "0")


def test_names_that_lead_nowhere(root, tmp_path, monkeypatch):
    """Two addresses that differ in their folders only have two folders."""
    for i in range(2):
        with hio.open(f"{root}/records/{i}/a.tfrecord", stage_in=tmp_path / "c") as data:
            assert len(data) == 9
    assert len(list((tmp_path / "c").iterdir())) == 2
