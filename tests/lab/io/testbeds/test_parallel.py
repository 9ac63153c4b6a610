"""Testbed N: what nodes see of the file system, what is counted, and the limit of their memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from events import MINUTE

from horovod_lab.io.testbeds.control_groups import PREFIX, hierarchy
from horovod_lab.io.testbeds.parallel import ParallelFileSystem

MIB = 1 << 20
# Reads blocks of a file by their numbers; how many bytes come.
READ = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
print(sum(len(os.pread(file, 4096, 4096 * int(number))) for number in sys.argv[2:]))
"""
# Holds a file in the page cache: a kernel may take back what is not locked.
HOLD = """
import mmap, os, sys
MAP_LOCKED = 0x2000
file = os.open(sys.argv[1], os.O_RDONLY)
held = mmap.mmap(file, 0, flags=mmap.MAP_SHARED | MAP_LOCKED, prot=mmap.PROT_READ)
print("ready", flush=True)
sys.stdin.read()
"""
TALK = """
import socket, sys
if sys.argv[1] == "serve":
    with socket.create_server((sys.argv[2], 5000)) as server:
        print("ready", flush=True)
        peer, _ = server.accept()
        print(peer.recv(100).decode())
else:
    with socket.create_connection((sys.argv[2], 5000), timeout=float(sys.argv[3])) as peer:
        peer.sendall(b"hello")
"""


@pytest.fixture
def data(tmp_path) -> Path:
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "file").write_bytes(b"0123456789abcdef" * (4 * MIB // 16))
    (folder / "sub" / "small").write_text("here")
    return folder


def test_every_node_sees_the_data_in_its_own_place_and_reads_it_for_itself(open_testbed, run_on,
                                                                           data):
    testbed = open_testbed(ParallelFileSystem(data, 2, share=4))
    (data / "later").write_text("only in the folder itself")
    for node in (0, 1):
        start = time.monotonic()
        testbed.begin()
        assert run_on(testbed, "cat", data / "sub" / "small", node=node) == "here"
        holder = subprocess.Popen(
            testbed.command(node, [sys.executable, "-c", HOLD, str(data / "file")]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
        with holder:
            assert holder.stdout.readline() == "ready\n"
            assert len(run_on(testbed, "cat", data / "file", node=node)) == 4 * MIB
            counters = testbed.counters()
            # The second node begins where the first one was before.
            assert (counters.bytes, counters.inversions) == (4 * MIB + 4, node)
            assert 32 < counters.requests <= 64 and counters.metadata_requests > 0
            assert 0 < counters.server_cpu_seconds < time.monotonic() - start  # of one thread
            testbed.begin()
            run_on(testbed, "cat", data / "file", node=node)
            assert testbed.counters().bytes == 0  # it is in this node's page cache
        with pytest.raises(Exception, match="non-zero exit status"):
            run_on(testbed, "touch", data / "file", node=node)


def test_requests_that_go_back_are_counted(open_testbed, run_on, data):
    testbed = open_testbed(ParallelFileSystem(data, share=8))
    testbed.begin()
    output = run_on(testbed, sys.executable, "-c", READ, data / "file", 10, 20, 15, 16, 3)
    assert output == "20480\n"
    counters = testbed.counters()
    assert (counters.requests, counters.inversions) == (5, 2)


def test_the_page_cache_of_a_node_is_limited(open_testbed, run_on, data):
    testbed = open_testbed(ParallelFileSystem(data, 2, share=0.5))
    assert testbed.memory == pytest.approx(2 * MIB, rel=0.01)
    testbed.begin()
    for _ in range(2):
        run_on(testbed, "cat", data / "file")
    assert testbed.counters().bytes > 6 * MIB  # it did not fit
    group, = hierarchy("parallel", "memory").glob(f"{PREFIX}{os.getpid()}-*-node0")
    limit = int((group / "memory.limit_in_bytes").read_text())
    assert testbed.memory - 4096 < limit < testbed.memory + 32 * MIB
    assert int((group / "memory.usage_in_bytes").read_text()) <= limit
    assert testbed.count_memory_kills() == 0
    testbed.release()
    assert int((group / "memory.limit_in_bytes").read_text()) > 1 << 40


def test_nodes_have_a_network_and_shared_memory_of_their_own(open_testbed, run_on, data):
    testbed = open_testbed(ParallelFileSystem(data, 3))
    server = subprocess.Popen(
        testbed.command(1, [sys.executable, "-c", TALK, "serve", "10.214.0.2"]),
        stdout=subprocess.PIPE, text=True, cwd="/")
    with server:
        assert server.stdout.readline() == "ready\n"
        run_on(testbed, sys.executable, "-c", TALK, "ask", "10.214.0.2", MINUTE, node=2)
        assert server.stdout.read() == "hello\n"
    name = Path(f"/dev/shm/horovod-opt-test-{os.getpid()}")
    run_on(testbed, "touch", name, node=0)
    assert run_on(testbed, "ls", "/dev/shm", node=1) == ""
    assert not name.exists()
    command = ["readlink", "/proc/self/ns/net"]
    here = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert run_on(testbed, *command) != here
    assert subprocess.run(testbed.command(0, command, network=False), check=True, cwd="/",
                          stdout=subprocess.PIPE, text=True).stdout == here


def test_two_testbeds_of_a_process_are_apart(open_testbed, run_on, data, tmp_path):
    first = open_testbed(ParallelFileSystem(data, share=4))
    second_folder = tmp_path / "other"
    second_folder.mkdir()
    (second_folder / "file").write_bytes(b"1")
    second = open_testbed(ParallelFileSystem(second_folder, share=4))
    first.begin(), second.begin()
    run_on(first, sys.executable, "-c", READ, data / "file", *range(0, 100, 5))
    assert (first.counters().bytes, second.counters().bytes) == (20 * 4096, 0)
