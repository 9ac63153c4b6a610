"""The file server and the kernel's side of the conversation, without a mount."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import struct
import subprocess
import sys

import pytest
from events import MINUTE

from horovod_lab.io.storage import fuse_changes as changes
from horovod_lab.io.storage import fuse_messages as fuse
from horovod_lab.io.storage.fuse_messages import ROOT
from horovod_lab.io.testbeds.crashing_storage import SERVER as CRASHING
from horovod_lab.io.testbeds.parallel import SERVER


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_bytes(bytes(range(256)) * 16)
    return tmp_path


# The crashing server, which answers 25 requests at once, and the others in an hour.
SLOW = """
import itertools, sys
from horovod_lab.io.storage import crashing_server, timing_model
class Speed(timing_model.Speed):
    delays = itertools.chain(25 * [0.0], itertools.repeat(3600.0))
    delay = property(lambda self: next(self.delays))
crashing_server.Speed = lambda bandwidth: Speed()
crashing_server.main(*sys.argv[1:])
"""


class Kernel:
    """What would be /dev/fuse is one end of a socket; this has the other. `program`: what Python
    runs, before its arguments."""

    def __init__(self, folder, module=SERVER, *arguments, program=()):
        self.socket, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(MINUTE)
        self.process = subprocess.Popen(
            [sys.executable, *(program or ("-m", module)), str(folder), *arguments,
             str(server.fileno())],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[server.fileno()])
        server.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.process.kill()
        self.process.__exit__(None, None, None)

    def ask(self, kind, inode=0, body=b"", unique=7):
        """Error and body of the answer."""
        self.send(kind, inode, body, unique)
        error, number, body = self.receive()
        assert number == unique
        return error, body

    def send(self, kind, inode, body, unique):
        self.socket.send(fuse.IN.pack(fuse.IN.size + len(body), kind, unique, inode, 0, 0, 0, 0, 0)
                         + body)

    def receive(self):
        """Error, number of the request, and body."""
        message = self.socket.recv(1 << 20)
        length, error, number = fuse.OUT.unpack_from(message)
        assert length == len(message)
        return -error, number, message[fuse.OUT.size:]

    def find(self, folder, name):
        """Inode and attributes."""
        _, body = self.ask(fuse.LOOKUP, folder, name + b"\0")
        return fuse.ENTRY.unpack_from(body)[0], fuse.ATTRIBUTES.unpack_from(body, fuse.ENTRY.size)

    def tell(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def read_body(offset, size):
    return fuse.READ_IN.pack(0, offset, size) + bytes(20)


def test_layouts_are_those_of_the_kernel():
    """Sizes as linux/fuse.h has them."""
    assert (fuse.IN.size, fuse.OUT.size, fuse.INIT_OUT.size) == (40, 16, 64)
    assert (fuse.ATTRIBUTES.size, fuse.ENTRY.size + fuse.ATTRIBUTES.size) == (88, 128)
    assert (fuse.VALIDITY.size + fuse.ATTRIBUTES.size, fuse.OPENED.size) == (104, 16)
    assert (fuse.STATISTICS.size, fuse.NAMED.size) == (80, 24)
    assert (changes.SETATTR_IN.size, changes.CREATE_IN.size, changes.MKNOD_IN.size) == (88, 16, 16)
    assert (changes.MKDIR_IN.size, changes.RENAME_IN.size, changes.RENAME2_IN.size) == (8, 8, 16)
    assert (changes.LINK_IN.size, changes.WRITE_IN.size, changes.WRITE_OUT.size) == (8, 40, 8)


def test_a_file_is_found_read_and_counted(folder):
    with Kernel(folder) as kernel:
        assert kernel.tell("begin")["requests"] == 0
        error, body = kernel.ask(fuse.INIT, body=struct.pack("=IIII", 7, 38, 1 << 20, 0xFFFFFFFF))
        assert error == 0 and struct.unpack_from("=II", body) == (7, 31)
        inode, _ = kernel.find(ROOT, b"sub")
        file, attributes = kernel.find(inode, b"file")
        assert attributes[1] == 4096 and stat.S_ISREG(attributes[9])
        assert attributes[4] == (folder / "sub" / "file").stat().st_mtime_ns // 10**9
        assert kernel.ask(fuse.OPEN, file)[0] == 0
        assert kernel.ask(fuse.READ, file, read_body(256, 10)) == (0, bytes(range(10)))
        assert kernel.ask(fuse.READ, file, read_body(4090, 100)) == (0, bytes(range(250, 256)))
        assert kernel.ask(fuse.READ, file, read_body(0, 1)) == (0, b"\0")
        counts = kernel.tell("counters")
        assert (counts["requests"], counts["bytes"], counts["inversions"]) == (3, 17, 1)
        assert counts["metadata_requests"] == 3 and counts["server_cpu_seconds"] >= 0
        assert kernel.tell("begin")["bytes"] == 0


def test_what_is_not_there_and_what_is_not_served(folder):
    with Kernel(folder) as kernel:
        assert kernel.find(ROOT, b"other")[0] == 0
        assert kernel.ask(fuse.STATFS, ROOT)[0] == 0
        assert kernel.ask(22, ROOT)[0] == errno.ENOSYS  # attributes with names
        assert kernel.ask(fuse.GETATTR, ROOT)[0] == 0


def test_a_folder_is_listed_in_pieces(folder):
    for number in range(50):
        (folder / f"file{number:02}").touch()
    names, offset = [], 0
    with Kernel(folder) as kernel:
        while body := kernel.ask(fuse.READDIR, ROOT, read_body(offset, 200))[1]:
            assert len(body) <= 200
            while body:
                _, offset, length, _ = fuse.NAMED.unpack_from(body)
                names.append(body[fuse.NAMED.size:fuse.NAMED.size + length].decode())
                body = body[-(-(fuse.NAMED.size + length) // 8) * 8:]
    assert names == sorted(os.listdir(folder))


def test_a_kernel_that_is_too_old_ends_it(folder):
    with Kernel(folder) as kernel:
        kernel.socket.send(fuse.IN.pack(56, fuse.INIT, 1, 0, 0, 0, 0, 0, 0)
                           + struct.pack("=IIII", 7, 8, 0, 0))
        assert kernel.process.wait(MINUTE) != 0


def test_it_ends_with_the_process_that_started_it(folder):
    with Kernel(folder) as kernel:
        kernel.tell("begin")
        kernel.process.stdin.close()
        assert kernel.process.wait(MINUTE) == 0


def test_nobody_writes_to_what_is_only_read(folder):
    with Kernel(folder) as kernel:
        for kind in changes.CHANGES:
            assert kernel.ask(kind, ROOT, bytes(64) + b"name\0")[0] == errno.ENOSYS


def test_what_is_under_way_fails_in_a_crash_and_is_not_done(folder):
    with Kernel(folder, CRASHING, str(1 << 20), "1e9", "drop", program=("-c", SLOW)) as kernel:
        kernel.tell("begin")
        body = changes.CREATE_IN.pack(os.O_WRONLY, 0o100644, 0, 0) + b"%d\0"
        for unique in range(50):
            kernel.send(changes.CREATE, ROOT, body % unique, unique)
        answers = [kernel.receive() for _ in range(25)]
        kernel.tell("crash 0 none")
        answers += [kernel.receive() for _ in range(25)]
        assert sorted(unique for _, unique, _ in answers) == list(range(50))
        assert [error for error, _, _ in answers] == 25 * [0] + 25 * [errno.EIO]
        assert kernel.ask(fuse.LOOKUP, ROOT, b"sub\0")[0] == errno.EIO
        kernel.tell("restart")
        kernel.tell("release")
        assert kernel.ask(fuse.LOOKUP, ROOT, b"sub\0")[0] == 0
        for unique in range(50):
            assert kernel.ask(fuse.LOOKUP, ROOT, b"%d\0" % unique)[0] == errno.ENOENT


def test_a_handle_or_an_inode_of_nothing_is_refused(folder):
    with Kernel(folder, CRASHING, str(1 << 20), "1e9", "drop") as kernel:
        assert kernel.ask(fuse.READ, 99, read_body(0, 10))[0] == errno.EIO
        assert kernel.ask(fuse.LOOKUP, 99, b"sub\0")[0] == errno.ESTALE
        assert kernel.ask(22, ROOT)[0] == errno.ENOSYS  # attributes with names
        assert kernel.ask(fuse.GETATTR, ROOT)[0] == 0
