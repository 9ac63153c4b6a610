"""`cache=` and `cache_in=`: what a node cannot have is refused, with the values and a remedy."""

from __future__ import annotations

import errno
import os

import pytest
from data_sets import tfrecord
from thread_ranks import in_job

import horovod_opt.io as hio
from horovod_opt.io import memory_limit
from horovod_opt.io.errors import InputError
from horovod_opt.io.kept import kept_place
from horovod_opt.io.kept.kept_place import KeptPlace, check_kept_place
from horovod_opt.io.step_source import StepSource


@pytest.fixture
def pattern(tmp_path) -> str:
    (tmp_path / "data").mkdir()
    return str(tfrecord(tmp_path / "data" / "a.tfrecord", [b"sample"] * 20))


def test_memory_and_folders_are_taken(tmp_path):
    assert check_kept_place(None, None) is None
    assert check_kept_place("2MiB", None) == KeptPlace(2 << 20)
    assert check_kept_place("2MiB", None).memory == 2 << 20
    in_folder = check_kept_place(4096, tmp_path)
    assert in_folder == KeptPlace(4096, str(tmp_path))
    assert in_folder.memory == 0


@pytest.mark.parametrize("cache", ["much", 0, -5, True, "1.5 XB"])
def test_no_amount(cache):
    with pytest.raises(InputError, match=r"^cache=.*; remedy: "):
        check_kept_place(cache, None)


def test_more_than_the_process_may_use(monkeypatch):
    monkeypatch.setattr(memory_limit, "limit", lambda: 3 << 30)
    assert check_kept_place("3GiB", None)
    with pytest.raises(InputError, match=r"cache=3.10 GiB.* use 3.00 GiB.*; remedy: .*cache_in"):
        check_kept_place("3.1GiB", None)


def test_more_than_the_process_may_use_beside_the_readers_memory(pattern, monkeypatch):
    monkeypatch.setattr(memory_limit, "limit", lambda: 64 << 20)
    with hio.open(pattern, cache="63.999MiB", memory="1MiB") as data:
        with pytest.raises(InputError, match=r"less cache=64.00 MiB.*; remedy: a smaller cache"):
            StepSource(data, 2, None, "spread")


@pytest.mark.parametrize("make, reason", [
    (lambda folder: folder / "not there", "is no folder"),
    (lambda folder: (folder / "file").write_bytes(b"") and None or folder / "file",
     "is no folder"),
])
def test_no_folder(tmp_path, make, reason):
    with pytest.raises(InputError, match=rf"cache_in=.*{reason}.*; remedy: "):
        check_kept_place("1MiB", make(tmp_path))


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "lustre", "cifs", "ceph", "9p"])
def test_a_folder_of_other_machines(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(kept_place, "file_system", lambda path: kind)
    with pytest.raises(InputError, match=rf"is on {kind}, which is no disk of this node; remedy: "):
        check_kept_place("1MiB", tmp_path)


@pytest.mark.parametrize("error, reason", [
    (errno.EOPNOTSUPP, "has no files without a name"), (errno.EISDIR, "has no files without"),
    (errno.EACCES, "cannot be used: Permission denied")])
def test_a_folder_without_nameless_files(tmp_path, monkeypatch, error, reason):
    def refuse(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match=rf"cache_in=.*{reason}.*; remedy: a folder on ext4"):
        check_kept_place("1MiB", tmp_path)


def test_a_folder_without_room(tmp_path):
    with pytest.raises(InputError, match=r"cache=.* TiB|GiB, but cache_in=.* free; remedy: "):
        check_kept_place("900000TiB", tmp_path)


def test_a_folder_without_an_amount(tmp_path):
    with pytest.raises(InputError, match=r"cache_in=.* without cache=; remedy: "):
        check_kept_place(None, tmp_path)


def test_where_a_folder_is_mounted_is_found(tmp_path):
    assert kept_place.file_system("/proc/self") == "proc"
    assert kept_place.file_system(os.fspath(tmp_path))


@pytest.mark.parametrize("arguments", [
    lambda rank, folder: {"cache": 1 << 20 if rank else 1 << 21},
    lambda rank, folder: {"cache": 1 << 20, "cache_in": folder if rank else None},
    lambda rank, folder: {"cache": 1 << 20} if rank else {},
])
def test_ranks_that_ask_for_different_ones_all_hear_it(pattern, tmp_path, arguments):
    errors = in_job(2, lambda open_data, rank: open_data(
        pattern, **arguments(rank, str(tmp_path))), 1)
    assert all(isinstance(error, InputError) for error in errors)
    assert str(errors[0]) == str(errors[1])
    assert "cache" in str(errors[0]) and "differs between the ranks" in str(errors[0])


def test_what_one_rank_cannot_have_all_hear_of(pattern, tmp_path):
    errors = in_job(2, lambda open_data, rank: open_data(
        pattern, cache=4096, cache_in=str(tmp_path / ("there" if rank else "data"))), 1)
    assert [type(error) for error in errors] == [InputError, InputError]
    assert str(errors[0]) == str(errors[1])
    assert "rank 1: cache_in=" in str(errors[0])
