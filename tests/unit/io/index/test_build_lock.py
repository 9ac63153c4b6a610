"""Who waits for whom while an index is built, and who cannot make others wait."""

from __future__ import annotations

import fcntl
import itertools
import os
import stat
import threading
from types import SimpleNamespace

import data_sets
import pytest
from events import MINUTE

from horovod_opt.io import index
from horovod_opt.io.index import build_lock, places


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def data(tmp_path):
    return data_sets.tfrecord(tmp_path / "a.tfrecord", [b"x", b"yy"])


@pytest.fixture
def lock_file(data) -> str:
    return f"{places.candidates(data)[0]}.lock"


def in_time(function) -> bool:
    """Whether it returns within a minute."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(MINUTE)
    return not thread.is_alive()


@pytest.mark.parametrize("kind", [fcntl.LOCK_SH, fcntl.LOCK_EX])
def test_whoever_holds_the_lock_and_does_nothing_is_not_waited_for(data, lock_file, kind,
                                                                   monkeypatch, capsys):
    monkeypatch.setattr(build_lock, "SILENT_SECONDS", 0.2)
    with open(lock_file, "w") as file:
        fcntl.flock(file, kind)
        assert in_time(lambda: index.build(data))
    assert index.load(data).samples == 2
    said = capsys.readouterr().err
    assert "another process builds this index: waiting for it" in said
    assert "holds this lock, but has done nothing for 0.2 s: going on without it" in said


def test_whoever_is_at_work_is_waited_for_and_named(lock_file, monkeypatch, capsys):
    """By a clock that goes on by a minute with each look, while the file is touched."""
    minutes = itertools.count()
    monkeypatch.setattr(build_lock, "time", SimpleNamespace(
        monotonic=lambda: 60.0 * next(minutes), sleep=lambda _: work.pop()()))
    with open(lock_file, "w") as file:
        file.write("process 7 on there")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        work = [lambda: fcntl.flock(file, fcntl.LOCK_UN),
                *[lambda at=at: os.utime(lock_file, (at, at)) for at in range(100)]]
        with build_lock.hold(lock_file):
            assert not work
    assert capsys.readouterr().err == (
        f"horovod-opt: {lock_file}: process 7 on there builds this index: waiting for it\n")


def test_a_holder_says_who_it_is(lock_file):
    with build_lock.hold(lock_file), open(lock_file) as file:
        assert file.read() == f"process {os.getpid()} on {os.uname().nodename}"


def test_others_can_neither_open_the_lock_nor_hold_it(data, lock_file):
    for mode in (None, 0o666):  # None: there is no such file yet
        if mode is not None:
            open(lock_file, "w").close()
            os.chmod(lock_file, mode)
        with build_lock.hold(lock_file):
            assert stat.S_IMODE(os.stat(lock_file).st_mode) == 0o600
        assert not os.path.exists(lock_file)


@pytest.mark.parametrize("make", [
    lambda path, other: os.symlink(other, path), lambda path, other: os.mkfifo(path),
    lambda path, other: os.mkdir(path)])
def test_what_is_no_file_is_no_lock(data, lock_file, make, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"kept")
    make(lock_file, other)
    assert in_time(lambda: index.build(data))
    assert index.load(data).samples == 2 and other.read_bytes() == b"kept"


def test_another_users_lock_is_not_waited_for(data, lock_file, monkeypatch):
    with open(lock_file, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        monkeypatch.setattr(build_lock.os, "geteuid", lambda: os.getuid() + 1)
        assert in_time(lambda: index.build(data))
    assert index.load(data, places.candidates(data)[0]).samples == 2


def test_a_lock_that_its_holder_has_removed_is_made_anew(lock_file, monkeypatch):
    """The one who waits has opened the file before."""
    def remove(_) -> None:
        os.unlink(lock_file)
        fcntl.flock(file, fcntl.LOCK_UN)

    monkeypatch.setattr(build_lock, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=remove))
    with open(lock_file, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with build_lock.hold(lock_file):
            assert os.path.exists(lock_file)
            with open(lock_file) as new_file, pytest.raises(BlockingIOError):
                fcntl.flock(new_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not os.path.exists(lock_file)
