"""Where an index is kept, and what jobs that write it at once do to each other."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import tempfile
import threading
from pathlib import Path

import data_sets
import pytest
from events import MINUTE

from horovod_opt.io import index
from horovod_opt.io.errors import DataError, Missing
from horovod_opt.io.index import build_lock, builder, places


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def data(tmp_path):
    return data_sets.tfrecord(tmp_path / "a.tfrecord", [b"x", b"yy"])


def test_candidates(tmp_path, cache, monkeypatch):
    beside, cached = places.candidates(tmp_path / "*.tar")
    assert beside.parent == tmp_path and beside.suffix == ".hoi"
    assert beside.name.startswith(".horovod-opt-index-")
    assert cached.parent == cache / "horovod-opt" / "index" and cached.name != beside.name
    monkeypatch.chdir(tmp_path)
    assert places.candidates("*.tar") == places.candidates(["./*.tar"]) == (beside, cached)
    assert places.candidates("*.tfrecord")[0].parent == beside.parent
    assert places.candidates("*.tfrecord")[0] != beside
    # Another name of the data's folder: the same file beside it, another one in the cache.
    (tmp_path / "other").mkdir()
    from_folder = places.candidates(tmp_path / "other" / "*.tar")
    assert from_folder[0].name == beside.name and from_folder[1] != cached
    assert places.candidates("*.tar", "here.hoi") == (tmp_path / "here.hoi",)


def test_a_list_in_any_order_is_one_pattern(tmp_path):
    first, second = tmp_path / "a.tar", tmp_path / "b.tar"
    assert places.candidates([first, second]) == places.candidates((str(second), first, first))


def test_without_a_cache_setting_it_is_in_the_home(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/somewhere")
    assert places.candidates(tmp_path)[1].is_relative_to("/somewhere/.cache/horovod-opt/index")


def test_a_read_only_folder_of_data(cache, monkeypatch):
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as home:
        for folder in (name, home):
            os.chmod(folder, 0o777 if folder == home else 0o755)
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        path = data_sets.tfrecord(Path(name) / "a.tfrecord", [b"x"])
        path.chmod(0o644)
        os.chmod(name, 0o555)
        with data_sets.unprivileged():
            built = index.build(path)
            assert Path(built.place).is_relative_to(home)
            assert index.load(path).place == built.place
        os.chmod(name, 0o755)


def test_the_index_in_the_cache_is_used_if_the_one_beside_is_stale(data, cache):
    beside, cached = places.candidates(data)
    index.build(data)
    old = beside.read_bytes()
    data_sets.tfrecord(data, [b"changed", b"x"])
    index.build(data, place=cached)
    beside.write_bytes(old)
    assert index.load(data).place == str(cached)


def test_a_place_of_ones_own(data, tmp_path):
    place = tmp_path / "new" / "my.hoi"
    assert index.build(data, place=place).place == str(place)
    assert index.load(data, place).samples == 2
    with pytest.raises(Missing):
        index.load(data)


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_space_beside_the_data(data, cache, monkeypatch):
    beside, cached = places.candidates(data)
    fsync = os.fsync

    def of_a_full_disk(file):
        if os.readlink(f"/proc/self/fd/{file}").startswith(str(beside.parent)):
            full()
        fsync(file)

    monkeypatch.setattr(places.os, "fsync", of_a_full_disk)
    assert index.build(data).place == str(cached)
    assert [path.name for path in beside.parent.iterdir()] == ["a.tfrecord"]


def test_no_space_anywhere(data, monkeypatch):
    monkeypatch.setattr(places.os, "fsync", full)
    beside, cached = places.candidates(data)
    with pytest.raises(DataError) as caught:
        index.build(data)
    for place in (beside, cached):
        assert f"{place}: No space left on device" in str(caught.value)
        assert not list(place.parent.glob("*.tmp")) and not place.exists()
    assert "remedy: make room or name another place: index= of open" in str(caught.value)


def test_no_place_is_found_out_before_the_data_is_read(data, monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setattr(builder.tfrecord, "scan", lambda *_: pytest.fail("it was read"))
    with pytest.raises(DataError, match="file/x.hoi: (Not a directory|File exists)"):
        index.build(data, place=tmp_path / "file" / "x.hoi")


def test_an_old_index_stays_until_the_new_one_is_whole(data, monkeypatch):
    old = Path(index.build(data).place).read_bytes()
    monkeypatch.setattr(places.os, "replace", full)
    with pytest.raises(DataError):
        index.build(data)
    assert places.candidates(data)[0].read_bytes() == old


def test_it_is_synced_before_it_is_renamed(data, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(places.os, name, lambda *args, real=real, name=name:
                            (calls.append(name), real(*args)))
    index.build(data)
    assert calls == ["fsync", "replace", "fsync"]


def test_what_a_killed_writer_left_is_removed(data):
    beside, _ = places.candidates(data)
    temporary = beside.parent / f"{beside.name}.0.tmp"
    recent = beside.parent / f"{beside.name}.1.tmp"
    for path in (temporary, recent):
        path.write_bytes(b"x")
    os.utime(temporary, (1, 1))
    index.build(data)
    assert not temporary.exists() and recent.exists()


def test_the_second_job_waits_and_uses_the_first_ones(data, monkeypatch):
    scans, scan, lock = [], builder.tfrecord.scan, fcntl.flock
    scanning, go_on = threading.Event(), threading.Event()

    def slow(*args):
        scans.append(args)
        scanning.set()
        assert go_on.wait(MINUTE)
        return scan(*args)

    def flock(*args):
        if scanning.is_set():  # this is the second one, which now waits
            go_on.set()
        lock(*args)

    monkeypatch.setattr(builder.tfrecord, "scan", slow)
    monkeypatch.setattr(build_lock, "flock", flock)
    built = []
    jobs = [threading.Thread(target=lambda: built.append(index.build(data))) for _ in range(2)]
    jobs[0].start()
    assert scanning.wait(MINUTE)
    jobs[1].start()
    for job in jobs:
        job.join(MINUTE)
    assert len(built) == 2 and len(scans) == 1
    assert built[0].digest == built[1].digest


def test_the_second_job_builds_if_the_first_ones_lacks_checksums(tmp_path, monkeypatch):
    path = data_sets.tar(tmp_path / "a.tar", [("1.jpg", b"x")])
    lock = fcntl.flock

    def other_job_first(file, operation):
        monkeypatch.setattr(build_lock, "flock", lock)
        place = places.candidates(path)[0]
        data_index = builder._scan(builder.formats.find(path), False, None)
        places.write([place], builder.index_file.pieces(data_index))
        lock(file, operation)

    monkeypatch.setattr(build_lock, "flock", other_job_first)
    assert index.build(path).crc is not None


def test_a_file_system_without_locks(data, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(build_lock, "flock", no_locks)
    index.build(data)
    assert index.load(data).samples == 2


def build_often(path, times):
    build_lock.flock = lambda *_: None  # as on a file system without locks
    for _ in range(times):
        index.build(path)


def test_processes_that_write_at_once_leave_no_torn_file(data):
    index.build(data)
    jobs = [multiprocessing.get_context("fork").Process(target=build_often, args=(data, 15))
            for _ in range(3)]
    for job in jobs:
        job.start()
    while any(job.is_alive() for job in jobs):
        assert index.load(data).samples == 2
    for job in jobs:
        job.join()
        assert job.exitcode == 0
    assert not list(places.candidates(data)[0].parent.glob("*.tmp"))


# What earlier versions have left: a folder.


def as_earlier(pattern) -> Path:
    """The index of `pattern` where earlier versions have kept it."""
    beside = Path(index.build(pattern).place)
    folder = beside.parent / ".horovod-opt-index"
    folder.mkdir(exist_ok=True)
    old = folder / beside.name[len(".horovod-opt-index-"):]
    beside.rename(old)
    Path(f"{old}.lock").touch()
    return old


@pytest.mark.parametrize("call", [index.load, index.build])
def test_the_folder_of_an_earlier_version_is_moved(tmp_path, call):
    data_sets.files(tmp_path, {"cat/1": b"x", "dog/1": b"yy", ".b.tfrecord": data_sets.framed(b"")})
    patterns = [tmp_path, tmp_path / ".b.tfrecord"]
    old = [as_earlier(pattern) for pattern in patterns]
    assert call(patterns[0]).samples == 2
    assert not old[0].parent.exists()
    assert index.load(patterns[1]).samples == 1
    assert {entry.name for entry in os.scandir(tmp_path) if entry.is_dir()} == {"cat", "dog"}


def test_the_folder_of_an_earlier_version_is_used_where_it_cannot_be_moved():
    with tempfile.TemporaryDirectory() as name:
        path = data_sets.tfrecord(Path(name) / "a.tfrecord", [b"x"])
        old = as_earlier(path)
        for file in (path, old):
            file.chmod(0o644)
        for folder in (old.parent, Path(name)):
            folder.chmod(0o555)
        with data_sets.unprivileged():
            assert index.load(path).place == str(old)
        for folder in (old.parent, Path(name)):
            folder.chmod(0o755)


def test_a_folder_of_classes_has_no_other_folder(tmp_path):
    """torchvision.datasets.folder.find_classes() takes each for a class."""
    data_sets.files(tmp_path, {"cat/1": b"x", "dog/1": b"yy"})
    assert Path(index.build(tmp_path).place).parent == tmp_path
    assert {entry.name for entry in os.scandir(tmp_path) if entry.is_dir()} == {"cat", "dog"}
    assert index.load(tmp_path).classes == ("cat", "dog")
