"""What is left of testbeds: of a benchmark that is ended, and of one that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from events import MINUTE, wait_until
from jobs import HANG_SECONDS

pytest.importorskip("matplotlib")

from horovod_lab.io.suites.suite_benchmark import TESTBEDS
from horovod_lab.io.testbeds import control_groups, disk
from horovod_lab.io.testbeds.crashing_storage import CrashingStorage
from horovod_lab.io.testbeds.testbed import NoTestbed
from horovod_opt import cli

# The command, of which no rank has ever counted enough: it measures until it is ended. A file
# `measures` says that it does.
COMMAND = """
import sys
from pathlib import Path
from horovod_lab.io.testbeds.rendezvous import Rendezvous
from horovod_opt import cli
has_all = Rendezvous.has_all
def have_all(self, name, ranks):
    if name != "counted":
        return has_all(self, name, ranks)
    Path("measures").touch()
    return False
Rendezvous.has_all = have_all
sys.exit(cli.main())
"""
LONG = ("--seconds", "1000000", "--records", "10000", "--record-bytes", "1000", "--rounds", "1",
        "--batch", "10", "--share", "4", "--timeout", "1000000")
PEER = {"disk": ("py-lmdb", "--ranks", "2"), "parallel": ("py-lmdb-strided", "--ranks", "4")}


@pytest.fixture(params=["disk", "parallel"])
def benchmark(request, tmp_path):
    """One that measures: its name, its process, and the processes of its ranks."""
    name = request.param
    nodes = 1 if name == "disk" else 2
    try:
        TESTBEDS[name].check(nodes)
    except NoTestbed as refusal:
        pytest.skip(str(refusal))
    peer, *ranks = PEER[name]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "io", "bench", "--stand", name, "--nodes", str(nodes),
         "--only", peer, *ranks, *LONG],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        # A shell has a program that it starts in the background ignore SIGINT, and so its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    try:
        wait_until(lambda: process.poll() is not None or (tmp_path / "measures").exists(),
              HANG_SECONDS)
        assert process.poll() is None and len(ranks_of(process)) == int(ranks[1])
        yield name, process, psutil.Process(process.pid).children(recursive=True)
    finally:
        process.kill()
        process.wait()
        for root in groups():
            control_groups.remove_leftovers(root)


def ranks_of(process: subprocess.Popen) -> list[psutil.Process]:
    """Those that have begun as such."""
    return [child for child in psutil.Process(process.pid).children() if is_rank(child)]


def is_rank(process: psutil.Process) -> bool:
    try:
        return (process.name() not in ("sh", "nsenter")
                and any("first_epoch_rank" in part for part in process.cmdline()))
    except psutil.Error:  # it has just ended
        return False


def groups() -> list[Path]:
    return [control_groups.hierarchy("x", controller) for controller in ("memory", disk.BLKIO)]


def groups_of(pid: int) -> list[Path]:
    return [group for root in groups() for group in root.glob(f"{control_groups.PREFIX}{pid}-*")]


def mounts(folder: Path) -> list[str]:
    """Of the folder's data, on any node that is there."""
    lines_found = set()
    for process in psutil.process_iter():
        try:
            lines = Path(f"/proc/{process.pid}/mounts").read_text().splitlines()
        except OSError:
            continue
        lines_found |= {line for line in lines if str(folder) in line}
    return sorted(lines_found)


def devices(folder: Path) -> list[Path]:
    return [device for device in Path("/sys/block").glob("loop*/loop/backing_file")
            if str(folder) in file_of(device)]


def file_of(device: Path) -> str:
    try:
        return device.read_text()
    except OSError:  # it has just been detached
        return ""


def is_gone(processes: list[psutil.Process], folder: Path) -> bool:
    return not any(map(runs, processes)) and not mounts(folder) and not devices(folder)


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it has just ended
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_one_that_is_ended(benchmark, tmp_path, number):
    _, process, family = benchmark
    assert mounts(tmp_path)
    process.send_signal(number)
    assert process.wait(MINUTE) == 130
    assert not groups_of(process.pid)
    wait_until(lambda: is_gone(family, tmp_path))


def test_what_a_killed_one_leaves_ends_or_goes_with_the_next(benchmark, tmp_path):
    name, process, family = benchmark
    process.kill()
    process.wait()
    wait_until(lambda: is_gone(family, tmp_path))
    # Its groups are there still, unless another test has made a testbed meanwhile.
    data = tmp_path / "next"
    data.mkdir()
    with TESTBEDS[name](data):
        assert not groups_of(process.pid)
        if name == "disk":
            rules = (groups()[1] / disk.RULES).read_text().splitlines()
            assert all(Path("/sys/dev/block", rule.split()[0], "loop").exists() for rule in rules)
    assert not groups_of(os.getpid())


# Has a storage, and a process on each node that writes to it for ever.
OWNER = """
import signal, subprocess, sys
from pathlib import Path
from horovod_lab.io.testbeds.crashing_storage import CrashingStorage
with CrashingStorage(Path(sys.argv[1]), 2) as storage:
    writers = [subprocess.Popen(storage.command(node, ["sh", "-c",
                   f"while echo written >{storage.folder}/{node}; do :; done"]),
                   stderr=subprocess.DEVNULL) for node in (0, 1)]
    while storage.counters().written_bytes < 100:
        pass
    print("ready", flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_storage_that_crashes(tmp_path, number):
    try:
        CrashingStorage.check()
    except NoTestbed as refusal:
        pytest.skip(str(refusal))
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd="/",
        stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    with process:
        assert process.stdout.readline() == "ready\n"
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 5 and mounts(tmp_path)
        process.send_signal(number)
        process.wait(MINUTE)
    wait_until(lambda: is_gone(family, tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_storage_that_crashes_without_root_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NoTestbed, match=r"^a storage that crashes needs the rights of root; "
                                        "remedy: run it as root$"):
        with CrashingStorage(tmp_path):
            pass


@pytest.mark.parametrize("name", ["disk", "parallel"])
def test_without_root_there_is_one_line_that_says_so(monkeypatch, capsys, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cli.main(["io", "bench", "--stand", name]) == 2
    assert capsys.readouterr().err == (
        f"horovod-opt io bench: --stand {name} needs the rights of root; remedy: run it as root\n")


def test_programs_and_devices_that_are_missing_are_named(monkeypatch, tmp_path):
    from horovod_lab.io.testbeds import requirements
    from horovod_lab.io.testbeds.parallel import ParallelFileSystem

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "SEARCH", str(tmp_path))
    monkeypatch.setattr(ParallelFileSystem, "devices", (tmp_path / "fuse",))
    with pytest.raises(NoTestbed) as refusal:
        ParallelFileSystem.check(2)
    assert str(refusal.value) == (
        f"--stand parallel needs unshare, nsenter, mount, ip, {tmp_path / 'fuse'}; remedy: install "
        "what Debian calls iproute2, mount, util-linux; a machine, or a container, that has "
        f"{tmp_path / 'fuse'}")


def test_what_root_may_not_do_here_is_one_line(monkeypatch, capsys, tmp_path):
    from horovod_lab.io.testbeds import nodes

    monkeypatch.chdir(tmp_path)
    try:
        TESTBEDS["parallel"].check(2)
    except NoTestbed as refusal:
        pytest.skip(str(refusal))
    monkeypatch.setattr(nodes, "WAIT", "echo mounting is not permitted >&2; exit 1")
    assert cli.main(["io", "bench", "--stand", "parallel", "--only", "py-lmdb"]) == 2
    assert capsys.readouterr().err == (
        "horovod-opt io bench: --stand parallel cannot be made: a node cannot be made: mounting is "
        "not permitted; remedy: a machine, or a container, whose root may mount file systems\n")
    assert not groups_of(os.getpid())


def test_control_groups_of_version_2_are_refused(tmp_path):
    mounts_file = tmp_path / "mounts"
    mounts_file.write_text("cgroup2 /sys/fs/cgroup cgroup2 rw,relatime 0 0\n")
    with pytest.raises(NoTestbed, match="--stand disk needs control groups of version 1 with m"):
        control_groups.hierarchy("disk", "memory", mounts_file)
