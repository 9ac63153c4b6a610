"""hio.BurstBuffer: what it saves, keeps, restores and refuses."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from events import MINUTE
from thread_ranks import on_ranks, succeeded

import horovod_opt.io as hio
from horovod_opt.io.checkpoints import draining

pytestmark = pytest.mark.usefixtures("unsynced")
FULL = OSError(errno.ENOSPC, "No space left on device")
BROKEN = OSError(errno.EIO, "Input/output error")


@pytest.fixture
def fast(tmp_path) -> Path:
    return tmp_path / "fast"


@pytest.fixture
def slow(tmp_path) -> Path:
    return tmp_path / "slow"


@pytest.fixture
def make(fast, slow):
    """A buffer of these folders, closed after the test."""
    buffers = []

    def make(**options) -> hio.BurstBuffer:
        folders = {"fast": fast, "slow": slow, **options}
        buffers.append(hio.BurstBuffer(**folders))
        return buffers[-1]

    yield make
    for buffer in buffers:
        buffer.close(drain=False)


def save(buffer: hio.BurstBuffer, *steps: int, size: int = 1000) -> None:
    for step in steps:
        with buffer.save(step) as folder:
            (folder / "state").write_bytes(b"%03d" % step * (size // 3))


def steps_of(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir() if path.name[0] != ".")


def content(folder: Path) -> int:
    return int((folder / "state").read_bytes()[:3])


def damage(folder: Path, step: int, rank: int = 0) -> None:
    path = folder / str(step) / str(rank) / "state"
    path.write_bytes(b"x" + path.read_bytes()[1:])


def test_versions_are_in_the_fast_folder_at_once_and_then_in_the_slow_one(make, fast, slow):
    with make() as buffer:
        save(buffer, 1)
        assert (fast / "1" / "0" / "state").exists()
        save(buffer, 2, 3)
        buffer.drain()
        stats = buffer.stats()
    assert (steps_of(fast), steps_of(slow)) == ([3], [2, 3])
    assert stats["slow_bytes"] == 3 * 999 and stats["fast_bytes"] == 999
    assert stats["behind"] == 0 and stats["slow_error"] == "" and stats["stall_seconds"] > 0
    assert stats["syncs"] > 0


def test_who_ends_well_leaves_nothing_in_the_fast_folder_alone(fast, slow):
    program = ("import sys, horovod_opt.io as hio\n"
               "buffer = hio.BurstBuffer(*sys.argv[1:])\n"
               "with buffer.save(1) as folder: (folder / 'state').write_text('001')\n")
    subprocess.run([sys.executable, "-c", program, fast, slow], check=True)
    assert steps_of(slow) == [1]


def test_an_exception_commits_nothing(make, fast):
    buffer = make()
    with pytest.raises(ZeroDivisionError), buffer.save(1) as folder:
        (folder / "state").write_text("001")
        raise ZeroDivisionError
    assert buffer.restore() is None
    assert [path.name for path in fast.iterdir()] == [".lock-0"]


def test_an_exception_of_the_training_waits_for_the_copies(make, slow):
    with pytest.raises(ZeroDivisionError), make() as buffer:
        save(buffer, 1)
        raise ZeroDivisionError
    assert steps_of(slow) == [1]


@pytest.mark.parametrize("node", ["the same", "another"])
def test_the_newest_is_restored(make, slow, tmp_path, node):
    with make() as buffer:
        save(buffer, 1, 2)
    again = make() if node == "the same" else make(fast=tmp_path / "other")
    folder = again.restore()
    assert content(folder) == 2
    assert (slow in folder.parents) == (node == "another")


def test_a_folder_that_was_restored_stays_until_the_next_save(make, fast):
    with make() as buffer:
        save(buffer, 1, 2)
    buffer = make()
    folder = buffer.restore()
    buffer._copier.make_room()
    assert content(folder) == 2
    save(buffer, 3)
    buffer.drain()
    assert steps_of(fast) == [3]


def test_a_damaged_version_is_left_out_and_saved_anew(make, fast, slow, capfd):
    with make() as buffer:
        save(buffer, 1, 2)
    for folder in (fast, slow):
        damage(folder, 2)
    buffer = make()
    assert content(buffer.restore()) == 1
    assert "version 2 is not what was saved: an older one is taken" in capfd.readouterr().err
    save(buffer, 2)
    buffer.close()
    assert content(make().restore()) == 2


def test_a_damaged_fast_copy_does_not_matter_once_there_is_a_slow_one(make, fast, slow):
    with make() as buffer:
        save(buffer, 1)
    damage(fast, 1)
    assert slow in make().restore().parents


def test_a_damaged_fast_copy_is_not_copied(make, fast, slow, capfd):
    with make() as buffer:
        save(buffer, 1)
        buffer.drain()
        with buffer._copier.work:
            save(buffer, 2)
            damage(fast, 2)
    assert steps_of(slow) == [1]
    assert "other bytes than were saved" in capfd.readouterr().err


def test_what_a_kill_leaves_is_removed(make, fast, slow):
    for folder in (fast, slow):
        (folder / ".part-7-0-aa").mkdir(parents=True)
        (folder / ".part-7-1-aa").mkdir()
        (folder / "5" / ".gone-0-aa").mkdir(parents=True)
        (folder / "5" / ".gone-0-aa" / "state").write_text("")
    make()
    for folder in (fast, slow):
        assert sorted(path.name for path in folder.iterdir()) == [".lock-0", ".part-7-1-aa"]


def test_each_rank_saves_a_part(fast, slow):
    def of_rank(ranks):
        own = fast / str(ranks.rank)
        with hio.BurstBuffer(own, slow, ranks=ranks) as buffer:
            save(buffer, 1)
            save(buffer, 2)
        damaged = 2 if ranks.rank == 0 else None
        if damaged:
            damage(own, 2), damage(slow, 2)
        with hio.BurstBuffer(own, slow, ranks=ranks) as buffer:
            folder = buffer.restore()
            save(buffer, 2)
            return content(folder), folder.name

    assert succeeded(on_ranks(3, of_rank)) == [(1, "0"), (1, "1"), (1, "2")]
    assert steps_of(slow) == [1, 2]


def test_another_number_of_ranks_restores_all_parts(slow, tmp_path):
    def saves(ranks):
        with hio.BurstBuffer(tmp_path / f"fast{ranks.rank}", slow, ranks=ranks) as buffer:
            save(buffer, 4)

    succeeded(on_ranks(3, saves))

    def restores(ranks):
        with hio.BurstBuffer(tmp_path / f"new{ranks.rank}", slow, ranks=ranks) as buffer:
            with pytest.raises(hio.InputError, match=r"saved by 3 ranks, and 2 .* restore_parts"):
                buffer.restore()
            return [content(folder) for folder in buffer.restore_parts()]

    assert succeeded(on_ranks(2, restores)) == [[4, 4, 4]] * 2


def test_a_version_of_which_a_part_is_missing_is_left_out(slow, tmp_path, capfd):
    def saves(ranks):
        buffer = hio.BurstBuffer(tmp_path / f"fast{ranks.rank}", slow, ranks=ranks)
        save(buffer, 1)
        buffer.drain()
        if ranks.rank == 0:
            buffer._ranks = hio.Communication(0, 2, lambda data: [data, data])
            save(buffer, 2)
        buffer.close()

    def restores(ranks):
        with hio.BurstBuffer(tmp_path / f"fast{ranks.rank}", slow, ranks=ranks) as buffer:
            return content(buffer.restore())

    succeeded(on_ranks(2, saves))
    assert succeeded(on_ranks(2, restores)) == [1, 1]
    assert "version 2 is left out" in capfd.readouterr().err


def test_ranks_that_save_other_steps_are_refused(slow, tmp_path):
    def saves(ranks):
        with hio.BurstBuffer(tmp_path / f"fast{ranks.rank}", slow, ranks=ranks) as buffer:
            with pytest.raises(hio.InputError, match="step differs .* all ranks save the same"):
                save(buffer, 5 + ranks.rank)

    succeeded(on_ranks(2, saves))


def test_a_function_is_called_again_for_the_slow_folder_when_the_fast_one_is_full(
        make, fast, slow, capfd):
    def function(folder: Path) -> None:
        (folder / "state").write_text("001")
        if fast in folder.parents:
            raise RuntimeError("as torch.save() says it") from FULL

    with make() as buffer:
        buffer.save_with(1, function)
        assert (steps_of(fast), steps_of(slow)) == ([], [1])
    assert "this version goes straight to" in capfd.readouterr().err


def test_a_full_fast_folder_is_named_and_the_next_version_goes_straight_to_slow(make, fast, slow):
    with make() as buffer:
        with pytest.raises(hio.DataError, match=r"no room in .*fast.* save_with\(\)"):
            with buffer.save(1):
                raise FULL
        buffer._fast.free_bytes = lambda: 1 << 20
        save(buffer, 2)
        assert (steps_of(fast), steps_of(slow)) == ([], [2])


def test_more_than_fast_bytes_waits_for_the_slow_folder(make, fast, slow):
    with make(fast_bytes="1.5MiB") as buffer:
        save(buffer, 1, size=1 << 20)
        save(buffer, 2, size=1 << 20)
        assert 1 in steps_of(slow) and steps_of(fast) == [2]
        buffer._limit = 10
        save(buffer, 3)
        assert steps_of(fast) == [] and 3 in steps_of(slow)


def test_what_is_copied_while_room_is_made_goes_as_well(make, fast, monkeypatch):
    copy, may_copy = draining.copy, threading.Event()

    def copies(*arguments) -> None:
        assert may_copy.wait(MINUTE)
        copy(*arguments)

    monkeypatch.setattr(draining, "copy", copies)
    buffer = make(fast_bytes="1.5MiB")
    save(buffer, 1, size=1 << 20)
    make_room = buffer._copier.make_room

    def makes_room() -> None:
        make_room()
        may_copy.set()
        buffer._copier.wait(behind=0)

    monkeypatch.setattr(buffer._copier, "make_room", makes_room)
    save(buffer, 2, size=1 << 20)
    assert steps_of(fast) == [2]


def test_a_slow_folder_that_fails_is_tried_again_said_and_raised_when_fast_is_full(
        make, fast, slow, monkeypatch, capfd):
    copy, failing = draining.copy, []

    def fails(*arguments) -> None:
        if failing:
            raise BROKEN
        copy(*arguments)

    monkeypatch.setattr(draining, "copy", fails)
    buffer = make(fast_bytes="2.5MiB")
    failing.append(True)
    save(buffer, 1, 2, size=1 << 20)
    with pytest.raises(hio.DataError, match=r"slow cannot be written to.*Input/output.*io drain"):
        save(buffer, 3)
    assert "Input/output error" in buffer.stats()["slow_error"]
    assert buffer.stats()["behind"] == 2 and steps_of(fast) == [1, 2]
    assert capfd.readouterr().err.count("Input/output error") == 1
    failing.clear()
    save(buffer, 3)
    buffer.close()
    assert steps_of(slow) == [2, 3] and buffer.stats()["slow_error"] == ""


def test_a_full_slow_folder_raises_where_versions_go_straight_there(make):
    buffer = make(fast=None)
    with pytest.raises(hio.DataError, match="no room in .*slow"), buffer.save(1):
        raise FULL


def test_signals_are_told_between_steps_to_all_ranks():
    from horovod_opt.io.checkpoints.signals import Signals

    signals = Signals((signal.SIGTERM, signal.SIGUSR1))
    alone = hio.Communication(0, 1, lambda data: [data])
    try:
        assert signals.asked(alone) is None
        os.kill(os.getpid(), signal.SIGUSR1)
        assert [signals.asked(alone), signals.asked(alone)] == ["save", None]
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)
        others = hio.Communication(0, 2, lambda data: [data, b"nothing"])
        assert [signals.asked(others), signals.asked(others)] == ["stop", None]
        others = hio.Communication(0, 2, lambda data: [data, b"save"])
        assert signals.asked(others) == "save"
    finally:
        signals.restore()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_one_that_is_forgotten_holds_nothing(fast, slow):
    for step in (1, 2):
        buffer = hio.BurstBuffer(fast, slow)
        save(buffer, step)
        thread = buffer._copier._thread
        del buffer
        assert not thread.is_alive()


def test_a_fork_cannot_save(make):
    buffer = make()
    child = os.fork()
    if not child:
        try:
            save(buffer, 1)
        except hio.InputError as error:
            os._exit(0 if "which this one is a fork" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    save(buffer, 1)


def test_two_jobs_cannot_have_one_folder(make, fast, slow, tmp_path):
    buffer = make()
    with pytest.raises(hio.InputError, match="this process already writes.*a folder for each job"):
        make(fast=tmp_path / "other")
    program = ("import sys, horovod_opt.io as hio\n"
               "try: hio.BurstBuffer(*sys.argv[1:])\n"
               "except hio.InputError as error: print(error)")
    run = subprocess.run([sys.executable, "-c", program, tmp_path / "another", slow], check=True,
                         capture_output=True, text=True)
    assert "another process already writes the parts of rank 0" in run.stdout
    buffer.close()
    make(fast=tmp_path / "other")


@pytest.mark.parametrize("options, text", [
    ({"keep": 0}, "keep=0; remedy"), ({"keep": True}, "keep=True"),
    ({"fast_bytes": "much"}, "remedy: a number of bytes"),
    ({"fast": "{}/slow"}, "one folder, or one is in the other"),
    ({"fast": "{}/slow/fast"}, "one is in the other"), ({"slow": "{}/file/x"}, "cannot be written"),
    ({"slow": "/proc/x"}, "slow='/proc/x' cannot be written to"),
    ({"signals": (0,)}, "remedy: such as"), ({"signals": ("x",)}, "remedy: such as")])
def test_bad_arguments_are_refused(make, tmp_path, options, text):
    (tmp_path / "file").write_text("")
    options = {name: value.format(tmp_path) if isinstance(value, str) else value
               for name, value in options.items()}
    with pytest.raises(hio.InputError, match=text):
        make(**options)
    make()  # nothing holds the folders


def test_a_folder_that_cannot_be_synced_is_refused(make, monkeypatch):
    def fsync(file: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(hio.InputError, match="cannot sync a folder|cannot be written to"):
        make()


def test_memory_as_the_fast_folder_is_said_not_to_be_durable(make, capfd):
    folder = Path("/dev/shm") / f"horovod-opt-test-{os.getpid()}"
    try:
        make(fast=folder).close()
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)
    assert "is memory: it ends with the machine" in capfd.readouterr().err


@pytest.mark.parametrize("step", [-1, 1.5, "3", True, None])
def test_a_step_is_a_number(make, step):
    with pytest.raises(hio.InputError, match="remedy: a whole number"), make().save(step):
        pass


def test_steps_grow(make):
    with make() as buffer:
        save(buffer, 7)
        with pytest.raises(hio.InputError, match="has version 7 already; remedy: numbers that"):
            save(buffer, 7)
    with pytest.raises(hio.InputError, match="after a restart go on from restore()"):
        save(make(), 3)


def test_what_is_no_version_is_refused(make):
    buffer = make()
    with pytest.raises(hio.InputError, match="has no files; remedy: save into the folder"):
        with buffer.save(1):
            pass
    with pytest.raises(hio.InputError, match="a file MANIFEST"), buffer.save(1) as folder:
        (folder / "MANIFEST").write_text("")
    with pytest.raises(hio.InputError, match="neither a file nor a folder"):
        with buffer.save(1) as folder:
            (folder / "link").symlink_to("/etc/passwd")
    buffer.close()
    with pytest.raises(hio.InputError, match="closed; remedy: a new one"):
        save(buffer, 1)
