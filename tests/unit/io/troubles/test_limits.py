"""Memory and disks that are too small: control groups, and a full file system."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from data_sets import tfrecord

from horovod_opt.io import memory_limit, native
from horovod_opt.io.errors import InputError

ROOT = Path(__file__).parents[4]
LIMIT = 3 << 30


@pytest.mark.parametrize("text, size", [
    (12, 12), ("12", 12), ("1KiB", 1024), ("1 kB", 1000), ("1.5GiB", 3 << 29), ("2g", 2 * 10**9),
    ("512M", 512 * 10**6), ("1TiB", 1 << 40)])
def test_amounts(text, size):
    assert memory_limit.parse(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "0", 0, -5, True, None, "1e3", "1 2"])
def test_what_is_no_amount(text):
    with pytest.raises(InputError, match="is no amount of memory; remedy"):
        memory_limit.parse(text)


@pytest.mark.parametrize("size, text", [
    (5, "5 bytes"), (1536, "1.50 KiB"), (3 << 20, "3.00 MiB"), (3 << 29, "1.50 GiB")])
def test_shown(size, text):
    assert memory_limit.show(size) == text


def test_of_several_limits_the_least_counts(tmp_path, monkeypatch):
    """Version 2 and version 1 of control groups, each with a limit above it."""
    contents = {"/proc/self/cgroup": "0::/job/rank\n5:cpu:/x\n4:memory:/a\n",
                "/sys/fs/cgroup/job/rank/memory.max": "max\n",
                "/sys/fs/cgroup/job/memory.max": "7000\n",
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9000\n",
                "/proc/meminfo": "MemTotal:       8 kB\n"}

    def read_text(path: Path) -> str:
        try:
            return contents[str(path)]
        except KeyError:
            raise FileNotFoundError(path) from None

    monkeypatch.setattr(memory_limit.Path, "read_text", read_text)
    assert memory_limit.limit() == 7000
    contents["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "6000"
    assert memory_limit.limit() == 6000
    contents["/proc/meminfo"] = "MemTotal:       5 kB\n"
    assert memory_limit.limit() == 5 << 10
    contents.clear()
    assert memory_limit.limit() is None


@pytest.fixture
def group():
    """A control group with a limit of memory, as a container has: its folder."""
    for base, name in ((Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
                       (Path("/sys/fs/cgroup"), "memory.max")):
        folder = base / f"horovod-opt-test-{os.getpid()}"
        with suppress(OSError):
            folder.mkdir()
            try:
                (folder / name).write_text(str(LIMIT))
                yield folder
                return
            finally:
                folder.rmdir()
    pytest.skip("needs root and a control group in which memory can be limited")


OPENS = """
import os, sys
folder, path = sys.argv[1:]
with open(f"{folder}/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
import horovod_opt.io as hio
from horovod_opt.io.step_source import StepSource
for memory in ("4GiB", None):
    with hio.open(path, memory=memory) as data:
        try:
            print(StepSource(data, 2, None, "spread").steps)
        except hio.InputError as error:
            print(error)
"""


def test_a_limit_below_memory_is_refused_with_both_figures(group, compiled, tmp_path):
    path = tfrecord(tmp_path / "a.tfrecord", [b"x" * 100] * 20)
    message = subprocess.run(
        [sys.executable, "-c", OPENS, group, path], check=True, stdout=subprocess.PIPE, text=True,
        timeout=200, env={**os.environ, native.PATH: str(compiled), "PYTHONPATH": str(ROOT)}).stdout
    assert message.splitlines() == [
        "memory=4.00 GiB, but this process may use 3.00 GiB (control group or machine); remedy: "
        "a smaller window, fewer shards, or a higher limit", "10"]


# A full disk

_CLONE_NEWNS, _MS_REC, _MS_PRIVATE = 0x20000, 0x4000, 0x40000
TMPFS = 64 << 10  # bytes


def mount_small(*folders: Path) -> bool:
    """Each of `folders` becomes a small file system, for this process, which has no threads yet.
    Whether that could be done."""
    libc = ctypes.CDLL(None)
    return not (libc.unshare(_CLONE_NEWNS)
                or libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
                or any(libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0,
                                  f"size={TMPFS}".encode()) for folder in folders))


def fill(folder: Path) -> None:
    with suppress(OSError), open(folder / "rest", "wb", buffering=0) as file:
        while True:
            file.write(bytes(1000))


INDEXES = """
import sys
from pathlib import Path
from data_sets import tfrecord
from test_limits import fill, mount_small
data, cache = map(Path, sys.argv[1:3])
full = [folder for folder in (data, cache) if folder.name in sys.argv[3:]]
if not mount_small(*full):
    sys.exit(77)
tfrecord(data / "a.tfrecord", [b"x"] * 100)
for folder in full:
    fill(folder)
import horovod_opt.io as hio
try:
    with hio.open(data / "a.tfrecord", chunk_samples=8) as opened:
        print(opened.index.samples, opened.index.place)
except hio.DataError as error:
    print(error)
"""


def on_full_disks(tmp_path: Path, *full: str) -> str:
    for name in ("data", "cache"):
        (tmp_path / name).mkdir()
    tests = Path(__file__).parent
    process = subprocess.run(
        [sys.executable, "-c", INDEXES, tmp_path / "data", tmp_path / "cache", *full],
        stdout=subprocess.PIPE, text=True, timeout=100,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"),
             "PYTHONPATH": os.pathsep.join(map(str, (ROOT, tests, tests.parent / "formats")))})
    if process.returncode == 77:
        pytest.skip("needs root, to mount a small file system")
    assert process.returncode == 0
    return process.stdout.strip()


def test_without_room_beside_the_data_the_index_is_in_the_cache(tmp_path):
    message = on_full_disks(tmp_path, "data")
    assert message.startswith(f"100 {tmp_path}/cache/horovod-opt/index/")


def test_without_room_anywhere_it_says_where_and_what_to_do(tmp_path):
    message = on_full_disks(tmp_path, "data", "cache")
    assert message.startswith(f"the index cannot be written: {tmp_path}/data/.horovod-opt-index-")
    assert message.count("No space left on device") == 2
    assert f"{tmp_path}/cache/horovod-opt/index/" in message
    assert message.endswith("remedy: make room or name another place: index= of open, --output of "
                            "horovod-opt io index")
