"""A storage that is written to: what nodes see of each other, what is counted, and its errors."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from events import MINUTE

from horovod_lab.io.testbeds.crashing_storage import CrashingStorage

KIB = 1 << 10
MIB = 1 << 20
LONG = "n" * 256
NOREPLACE, EXCHANGE = 1, 2
HERE = -100  # AT_FDCWD
# Does what the first argument says with the second, until that fails; prints the errno.
FOREVER = """
import os, sys, time
file = os.open(sys.argv[2], os.O_RDWR)
print("ready", flush=True)
try:
    while True:
        os.lseek(file, 0, os.SEEK_SET)
        if sys.argv[1] == "write":
            os.write(file, b"w" * (4 << 20))
        else:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            while os.read(file, 1 << 20):
                pass
except OSError as error:
    print(error.errno, flush=True)
"""


@pytest.fixture
def storage(open_testbed, tmp_path) -> CrashingStorage:
    """Of two nodes, with capacity for 256 KiB."""
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "old").write_text("old")
    (folder / "sub" / "file").write_text("in a folder")
    return open_testbed(CrashingStorage(folder, 2, capacity=256 * KIB))


def rename(old: Path, new: Path, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(HERE, os.fsencode(old), HERE, os.fsencode(new), flags):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def link_nameless(file: int, path: Path) -> None:
    root = os.open("/", os.O_RDONLY)
    os.link(f"/proc/self/fd/{file}", path, src_dir_fd=root)  # or Python does not follow the link
    os.close(root)


def test_a_node_sees_at_once_what_the_other_one_does(storage):
    here, there = storage.path(0), storage.path(1)
    assert sorted(os.listdir(there)) == ["old", "sub"]
    with (here / "new").open("wb", buffering=0) as writing:
        with (there / "new").open("rb", buffering=0) as reading:
            assert reading.read(10) == b""
            for number in range(20):
                writing.write(b"%d" % (number % 10))
                assert (there / "new").stat().st_size == number + 1
                assert reading.read(10) == b"%d" % (number % 10)
            os.pwrite(writing.fileno(), b"!", 3)
            assert os.pread(reading.fileno(), 5, 2) == b"2!456"
            writing.truncate(4)
            assert os.pread(reading.fileno(), 10, 0) == b"012!"
    (there / "old").rename(there / "sub" / "moved")
    assert not (here / "old").exists()
    assert (here / "sub" / "moved").read_text() == "old"
    os.link(here / "sub" / "moved", here / "linked")
    assert (there / "sub" / "moved").stat().st_nlink == 2
    (there / "folder").mkdir()
    (here / "folder" / "file").write_text("in it")
    assert (there / "folder" / "file").read_text() == "in it"
    (there / "folder" / "file").unlink()
    (here / "folder").rmdir()
    assert sorted(os.listdir(there)) == ["linked", "new", "sub"]
    assert sorted(os.listdir(storage.folder)) == ["old", "sub"]


def test_programs_on_nodes_have_it_in_its_own_place(storage):
    text = ["sh", "-c", f"echo $0 >{storage.folder}/$0", "written"]
    subprocess.run(storage.command(0, text), check=True, cwd="/")
    process = subprocess.run(storage.command(1, ["cat", str(storage.folder / "written")]), cwd="/",
                             check=True, stdout=subprocess.PIPE, text=True)
    assert process.stdout == "written\n"
    assert not (storage.folder / "written").exists()


def test_both_nodes_append_to_one_file(storage):
    files = [os.open(storage.path(node) / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
             for node in (0, 1)]
    for number in range(10):
        os.write(files[number % 2], b"%d" % number)
    for file in files:
        os.close(file)
    assert (storage.path(0) / "log").read_bytes() == b"0123456789"


def test_attributes(storage):
    here, there = storage.path(0), storage.path(1)
    path = here / "new"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    assert stat.S_IMODE((there / "new").stat().st_mode) == 0o600
    path.chmod(0o640)
    os.chown(path, 12, 34)
    os.utime(path, ns=(10**9 + 1, 2 * 10**9 + 2))
    status = (there / "new").stat()
    assert (status.st_mode, status.st_uid, status.st_gid) == (stat.S_IFREG | 0o640, 12, 34)
    assert (status.st_atime_ns, status.st_mtime_ns) == (10**9 + 1, 2 * 10**9 + 2)
    (there / "new").write_bytes(bytes(5000))
    status = path.stat()
    assert status.st_mtime_ns > 10**18 and (status.st_size, status.st_blocks) == (5000, 16)
    assert os.statvfs(here).f_bavail == 62


def test_a_file_that_has_no_name_any_more_is_there_while_it_is_open(storage):
    here, there = storage.path(0), storage.path(1)
    with (here / "old").open("rb+", buffering=0) as file:
        (there / "old").unlink()
        assert file.read() == b"old" and file.write(b"er") == 2
        assert os.fstat(file.fileno()).st_nlink == 0
    with (here / "sub" / "file").open("rb") as file:
        (there / "new").write_text("other")
        (there / "new").replace(there / "sub" / "file")
        assert file.read() == b"in a folder"
    assert (here / "sub" / "file").read_text() == "other"


def test_a_file_without_a_name_gets_one(storage):
    here, there = storage.path(0), storage.path(1)
    file = os.open(here, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(file, b"complete")
    assert sorted(os.listdir(there)) == ["old", "sub"]
    link_nameless(file, here / "sub" / "linked")
    assert (there / "sub" / "linked").read_bytes() == b"complete"
    with pytest.raises(FileExistsError):
        link_nameless(file, here / "old")
    os.close(file)


@pytest.mark.parametrize("flag", [os.O_SYNC, os.O_DSYNC])
def test_a_file_that_syncs_each_write(storage, flag):
    file = os.open(storage.path(0) / "old", os.O_WRONLY | flag)
    os.write(file, b"new")
    os.close(file)
    assert storage.counters().syncs == 1
    storage.crash()
    assert (storage.path(1) / "old").read_text() == "new"


def test_what_is_mapped_is_written_and_seen(storage):
    here, there = storage.path(0) / "mapped", storage.path(1) / "mapped"
    here.write_bytes(bytes(8 * KIB))
    with here.open("rb+") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[5000:5003] = b"abc"
        mapping.flush()
        assert there.read_bytes()[5000:5003] == b"abc"
        os.pwrite(file.fileno(), b"xyz", 5000)
        with there.open("rb+") as second_file, mmap.mmap(second_file.fileno(), 0) as second:
            assert second[5000:5003] == b"xyz"
            os.pwrite(file.fileno(), b"123", 5000)
            there.stat()
            assert second[5000:5003] == b"123"
    storage.crash()
    assert not there.exists()


def test_a_rename_that_must_not_replace(storage):
    here = storage.path(0)
    with pytest.raises(FileExistsError):
        rename(here / "old", here / "sub" / "file", NOREPLACE)
    rename(here / "old", here / "sub" / "new", NOREPLACE)
    assert sorted(os.listdir(storage.path(1) / "sub")) == ["file", "new"]


# By the name of the case: what is done in a folder with `old`, `full/file` and `empty/`.
ERRORS: dict[str, tuple[int, Callable[[Path], object]]] = {
    "rename a file onto a folder": (errno.EISDIR, lambda at: (at / "old").rename(at / "empty")),
    "rename a folder onto a file": (errno.ENOTDIR, lambda at: (at / "empty").rename(at / "old")),
    "rename onto a full folder": (errno.ENOTEMPTY, lambda at: (at / "empty").rename(at / "full")),
    "rename into itself": (errno.EINVAL, lambda at: (at / "full").rename(at / "full" / "in")),
    "rename of nothing": (errno.ENOENT, lambda at: (at / "none").rename(at / "old")),
    "rename to nowhere": (errno.ENOENT, lambda at: (at / "old").rename(at / "none" / "old")),
    "unlink of nothing": (errno.ENOENT, lambda at: (at / "none").unlink()),
    "unlink of a folder": (errno.EISDIR, lambda at: (at / "empty").unlink()),
    "rmdir of a file": (errno.ENOTDIR, lambda at: (at / "old").rmdir()),
    "rmdir of a full folder": (errno.ENOTEMPTY, lambda at: (at / "full").rmdir()),
    "mkdir where something is": (errno.EEXIST, lambda at: (at / "old").mkdir()),
    "mkdir nowhere": (errno.ENOENT, lambda at: (at / "none" / "new").mkdir()),
    "create what is there": (errno.EEXIST, lambda at: (at / "old").open("x")),
    "create in a file": (errno.ENOTDIR, lambda at: (at / "old" / "new").open("x")),
    "write to a folder": (errno.EISDIR, lambda at: (at / "empty").open("w")),
    "link of a folder": (errno.EPERM, lambda at: os.link(at / "empty", at / "new")),
    "link onto a file": (errno.EEXIST, lambda at: os.link(at / "old", at / "full" / "file")),
    "a long name created": (errno.ENAMETOOLONG, lambda at: (at / LONG).open("x")),
    "a long name looked up": (errno.ENAMETOOLONG, lambda at: (at / LONG).stat()),
    "a long name of a folder": (errno.ENAMETOOLONG, lambda at: (at / LONG).mkdir()),
    "a long name by a rename": (errno.ENAMETOOLONG, lambda at: (at / "old").rename(at / LONG)),
    "a long name by a link": (errno.ENAMETOOLONG, lambda at: os.link(at / "old", at / LONG)),
}


def test_what_cannot_be_done_has_the_errno_of_linux(storage, tmp_path):
    """Of another file system of this machine, too."""
    for folder in (storage.path(0), tmp_path):
        (folder / "full").mkdir()
        (folder / "empty").mkdir()
        for name in ("old", "full/file"):
            (folder / name).write_text("here")
        for case, (number, do) in ERRORS.items():
            with pytest.raises(OSError) as refusal:
                do(folder)
            assert (case, refusal.value.errno) == (case, number)
        (folder / LONG[1:]).touch()
        assert LONG[1:] in os.listdir(folder)


def test_what_this_file_system_does_not_have_is_not_permitted(storage):
    here = storage.path(0)
    for error, do in ((errno.EPERM, lambda: (here / "link").symlink_to("old")),
                      (errno.EPERM, lambda: os.mkfifo(here / "pipe")),
                      (errno.ENOTSUP, lambda: os.setxattr(here / "old", "user.name", b"value")),
                      (errno.EINVAL, lambda: rename(here / "old", here / "sub", EXCHANGE))):
        with pytest.raises(OSError) as refusal:
            do()
        assert refusal.value.errno == error
    os.mknod(here / "file")
    assert (storage.path(1) / "file").read_bytes() == b""


def test_more_than_the_capacity_is_refused(storage):
    here, there = storage.path(0), storage.path(1)
    with (here / "large").open("wb", buffering=0) as file:
        with pytest.raises(OSError) as refusal:
            while True:
                file.write(bytes(100 * KIB))
        assert refusal.value.errno == errno.ENOSPC
        assert os.fstat(file.fileno()).st_size == 200 * KIB
    with pytest.raises(OSError) as refusal:
        (there / "other").write_bytes(bytes(60 * KIB))
    assert refusal.value.errno == errno.ENOSPC
    (there / "large").unlink()
    (there / "other").write_bytes(bytes(256 * KIB))


def test_what_is_read_written_and_synced_is_counted(storage):
    here, there = storage.path(0), storage.path(1)
    with (here / "file").open("wb", buffering=0) as file:
        storage.begin()
        file.write(bytes(200 * KIB))
        os.fsync(file.fileno())
        os.fdatasync(file.fileno())
        counts = storage.counters()
    assert (counts.write_requests, counts.written_bytes, counts.syncs) == (2, 200 * KIB, 2)
    assert (counts.requests, counts.bytes) == (0, 0)
    storage.begin()
    assert len((there / "file").read_bytes()) == 200 * KIB
    counts = storage.counters()
    assert (counts.bytes, counts.inversions, counts.written_bytes) == (200 * KIB, 0, 0)
    assert counts.requests >= 2 and counts.metadata_requests > 0


def test_of_what_is_opened_before_a_crash_nothing_works_after_it(storage):
    here, there = storage.path(0), storage.path(1)
    folder = os.open(here / "sub", os.O_RDONLY)
    root = os.open(there, os.O_RDONLY)
    file = os.open(here / "old", os.O_RDWR)
    assert os.read(file, 1) == b"o"
    storage.crash()
    for do in (lambda: os.read(file, 1), lambda: os.write(file, b"1"), lambda: os.fsync(file),
               lambda: os.fstat(file), lambda: os.ftruncate(file, 0), lambda: os.fsync(folder),
               lambda: os.fsync(root), lambda: os.listdir(folder), lambda: os.close(file)):
        with pytest.raises(OSError) as refusal:
            do()
        assert refusal.value.errno in (errno.EIO, errno.ESTALE)
    for descriptor in (folder, root):
        os.close(descriptor)
    for path in (here, there):
        assert (path / "old").read_text() == "old"
        assert (path / "sub" / "file").read_text() == "in a folder"


def test_between_a_crash_and_the_restart_everything_fails(storage):
    here, there = storage.path(0), storage.path(1)
    storage.crash_after(2)
    (here / "first").touch()
    (there / "second").touch()
    with pytest.raises(OSError) as refusal:
        (here / "third").touch()
    assert refusal.value.errno == errno.EIO
    for do in (lambda: (there / "first").stat(), lambda: os.listdir(there),
               lambda: (here / "old").read_text()):
        with pytest.raises(OSError) as refusal:
            do()
        assert refusal.value.errno == errno.EIO
    storage.restart()
    assert sorted(os.listdir(there)) == ["old", "sub"]
    storage.crash_after(1)
    storage.restart()  # before it has crashed: it does not
    (here / "first").touch(), (here / "second").touch()
    assert (there / "second").exists()


@pytest.mark.parametrize("is_paced", [False, True])
def test_a_crash_amid_reads_and_writes_is_an_error_for_both(open_testbed, tmp_path, is_paced):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "read").write_bytes(bytes(8 * MIB))
    (folder / "write").touch()
    storage = open_testbed(CrashingStorage(folder, 2, is_paced))
    processes = [subprocess.Popen(
        storage.command(node, [sys.executable, "-c", FOREVER, action, str(folder / action)]),
        stdout=subprocess.PIPE, text=True, cwd="/")
        for node, action in enumerate(("read", "write"))]
    try:
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
        while (counts := storage.counters()).bytes < 2 * MIB or counts.written_bytes < 2 * MIB:
            pass
        storage.crash()
        for process in processes:
            assert int(process.communicate(timeout=MINUTE)[0]) in (errno.EIO, errno.ESTALE)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert (storage.path(0) / "read").stat().st_size == 8 * MIB
    assert (storage.path(1) / "write").read_bytes() == b""
