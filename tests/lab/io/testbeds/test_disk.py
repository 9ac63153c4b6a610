"""Testbed H: a disk that does so many requests a second, and the image of its file system."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from events import wait_until

from horovod_lab.io.testbeds import disk
from horovod_lab.io.testbeds.disk import Disk, image_of
from horovod_lab.io.testbeds.testbed import NoTestbed

MIB = 1 << 20
READ = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
for number in sys.argv[2:]:
    os.pread(file, 4096, 4096 * int(number))
"""


@pytest.fixture
def data(tmp_path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "file").write_bytes(os.urandom(16 * MIB))
    os.utime(folder / "file", (10**9, 10**9))
    return folder


def loop_devices(image: Path) -> list[Path]:
    return [path for path in Path("/sys/block").glob("loop*/loop/backing_file")
            if file_of(path) == str(image)]


def file_of(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # it has just been detached
        return ""


def test_it_does_no_more_requests_a_second_than_it_should(open_testbed, run_on, data):
    testbed = open_testbed(Disk(data, share=2))
    testbed.begin()
    start = time.monotonic()
    blocks = random.Random(1).sample(range(4096), 500)
    run_on(testbed, sys.executable, "-c", READ, data / "file", *blocks)
    seconds = time.monotonic() - start
    counters = testbed.counters()
    assert 500 <= counters.requests < 600 and 500 * 4096 <= counters.bytes < 3 * MIB
    # The kernel counts in slices of time, so a few may be ahead.
    assert counters.requests <= disk.REQUESTS * (seconds + 0.5)
    assert rules_of(testbed) == [str(disk.REQUESTS)] * 2
    testbed.release()
    assert rules_of(testbed) == []
    assert run_on(testbed, "wc", "--bytes", data / "file").split()[0] == str(16 * MIB)


def rules_of(testbed: Disk) -> list[str]:
    """The limits of the testbed's device, of its group and of all processes."""
    rules = [line.split() for folder in testbed._folders()
             for line in (folder / disk.RULES).read_text().splitlines()]
    return [limit for number, limit in rules if number == testbed._number()]


def test_the_files_are_those_of_the_folder(open_testbed, run_on, data):
    there = open_testbed(Disk(data, share=2))
    assert run_on(there, "ls", "--almost-all", data) == "file\n"
    here = f"{16 * MIB} 1000000000\n"
    assert run_on(there, "stat", "--format", "%s %Y", data / "file") == here
    digest = subprocess.run(["sha256sum", str(data / "file")], stdout=subprocess.PIPE, text=True)
    assert run_on(there, "sha256sum", data / "file") == digest.stdout


def test_nothing_is_left_but_the_image(open_testbed, data):
    testbed = open_testbed(Disk(data))
    assert len(loop_devices(data.with_name("data.ext4"))) == 1
    testbed.__exit__()
    wait_until(lambda: not loop_devices(data.with_name("data.ext4")))
    assert sorted(path.name for path in data.parent.iterdir()) == ["data", "data.ext4"]


def test_an_image_is_kept_until_the_data_changes(data):
    if os.geteuid():
        pytest.skip("needs the rights of root, as the testbed does")
    image = image_of(data)
    first = image.stat().st_mtime_ns
    assert image_of(data).stat().st_mtime_ns == first
    time.sleep(0.02)
    (data / "more").write_text("x")
    assert image_of(data).stat().st_mtime_ns > first


def test_rules_of_devices_that_are_gone_are_forgotten(tmp_path):
    rules = tmp_path / disk.RULES
    rules.write_text("7:99999 200\n8:0 100\n")
    disk.remove_old_rules(tmp_path)
    assert rules.read_text() == "7:99999 0"


def test_it_is_the_disk_of_one_node(tmp_path):
    with pytest.raises(NoTestbed, match="one node, not of 2; remedy: --nodes 1, or --stand parall"):
        Disk.check(2)
