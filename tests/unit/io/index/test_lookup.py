"""Which of several indexes is taken, and whose."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path
from types import SimpleNamespace

import data_sets
import pytest

from horovod_opt.io import index
from horovod_opt.io.errors import Stale
from horovod_opt.io.index import lookup, places


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def data(tmp_path):
    return data_sets.tar(tmp_path / "a.tar", [("1.jpg", b"x"), ("2.jpg", b"yy")])


def test_one_with_checksums_is_taken_before_one_without(data):
    beside, cached = places.candidates(data)
    assert index.build(data, checksums=False).place == str(beside)
    assert index.load(data, checksums=True).crc is None  # better than none
    index.build(data, place=cached)
    assert index.load(data, checksums=True).place == str(cached)
    assert index.load(data).place == str(beside)


@pytest.mark.parametrize("make", [
    lambda place: os.mkfifo(place), lambda place: os.mkdir(place),
    lambda place: os.symlink("/etc/hostname", place), lambda place: os.symlink("/nowhere", place)])
def test_what_is_no_file_is_no_index(data, make, capsys):
    beside, cached = places.candidates(data)
    index.build(data, place=cached)
    make(beside)
    assert index.load(data).place == str(cached)
    assert f"{beside}: this index cannot be used: it" in capsys.readouterr().err


def test_a_link_that_the_user_names_is_followed(data, tmp_path):
    place = Path(index.build(data, place=tmp_path / "x.hoi").place)
    (tmp_path / "link").symlink_to(place)
    assert index.load(data, tmp_path / "link").samples == 2


USER, ADMIN, OWNER, STRANGER = 1000, 1001, 1002, 1003
STICKY = stat.S_ISVTX


@pytest.mark.parametrize("owner", [USER, 0, ADMIN, OWNER, STRANGER])
@pytest.mark.parametrize("folder", ["/data", "/data/.horovod-opt-index", "/cache/index"])
@pytest.mark.parametrize("sticky", [(), ("/data",), ("/data/.horovod-opt-index",)])
def test_a_strangers_index_is_not_used(monkeypatch, owner, folder, sticky):
    """The user's own, root's; beside the data also that of whoever has the folder or the data; and
    of anyone who could replace the data, too."""
    owners = {"/data": ADMIN, "/data/.horovod-opt-index": STRANGER, "/cache/index": STRANGER,
              "/data/a.tar": OWNER}
    monkeypatch.setattr(lookup, "os", SimpleNamespace(
        path=os.path, geteuid=lambda: USER, stat=lambda path: SimpleNamespace(
            st_uid=owners[path], st_mode=0o777 | (STICKY if path in sticky else 0))))
    is_beside = folder != "/cache/index"
    may = owner in (USER, 0) or is_beside and (
        owner in (ADMIN, OWNER) or "/data" not in sticky and folder not in sticky)

    def check() -> None:
        lookup._check_owner(f"{folder}/x.hoi", SimpleNamespace(st_uid=owner), "/data",
                            SimpleNamespace(root="/data", files=["a.tar"]))

    if may:
        check()
    else:
        with pytest.raises(ValueError, match=f"user id {owner}, who has neither"):
            check()


def test_another_process_gets_the_same_or_none(data):
    built = index.build(data)
    pickled = pickle.dumps(built)
    assert pickle.loads(pickled).fingerprint == built.fingerprint
    index.build(data, checksums=False, place=built.place)
    assert pickle.loads(pickled).crc is None  # of the same records
    data_sets.tar(data, [("1.jpg", b"x")])
    index.build(data, place=built.place)
    with pytest.raises(Stale, match="replaced after the job had opened it; remedy"):
        pickle.loads(pickled)
