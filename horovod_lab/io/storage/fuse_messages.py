"""What the kernel asks a file server, and how it is answered: what reading needs of FUSE 7.31.

What writing needs beside it is in fuse_changes.py. The layouts are those of linux/fuse.h: numbers
in the machine's own order.
"""

from __future__ import annotations

import errno
import stat
import struct
from typing import NamedTuple, Optional, Protocol

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, DESTROY, BATCH_FORGET = 25, 26, 27, 28, 29, 38, 42
UNANSWERED = (FORGET, BATCH_FORGET)
FREE = (RELEASE, FLUSH, RELEASEDIR, STATFS, DESTROY)  # without work for the storage

MAJOR, MINOR = 7, 31
ASYNC_READ, PARALLEL_DIROPS = 1 << 0, 1 << 18
KEEP_CACHE, CACHE_DIR = 1 << 1, 1 << 3
READAHEAD = 128 << 10  # bytes; no request is larger, however much is read at a time
MOST_WAITING = 64  # requests of readahead
BUFFER = 1 << 16  # bytes: more than any request that is not a write
VALID = 86400  # seconds that names and attributes are kept: nothing changes
ROOT = 1  # the inode that FUSE gives the folder

IN = struct.Struct("=IIQQIIIHH")  # length, kind, unique, inode, uid, gid, pid
OUT = struct.Struct("=IiQ")  # length, error, unique
INIT_IN = struct.Struct("=IIII")  # major, minor, readahead, flags
INIT_OUT = struct.Struct("=IIIIHHIIHHI28x")
ATTRIBUTES = struct.Struct("=QQQQQQIIIIIIIIII")
ENTRY = struct.Struct("=QQQQII")
VALIDITY = struct.Struct("=QII")
OPENED = struct.Struct("=QII")
READ_IN = struct.Struct("=QQI")  # handle, offset, size
STATISTICS = struct.Struct("=QQQQQIIII24x")
NAMED = struct.Struct("=QQII")  # inode, next offset, length of the name, kind


class Status(Protocol):
    """As os.stat_result has it."""

    st_mode: int
    st_nlink: int
    st_uid: int
    st_gid: int
    st_size: int
    st_blocks: int
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int


class Request(NamedTuple):
    kind: int
    unique: int
    inode: int
    body: bytes
    uid: int = 0
    gid: int = 0

    @classmethod
    def parse(cls, message: bytes) -> Request:
        _, kind, unique, inode, uid, gid, *_ = IN.unpack_from(message)
        return cls(kind, unique, inode, message[IN.size:], uid, gid)

    def parse_read(self) -> tuple[int, int]:
        """Offset and size in bytes, of READ and READDIR."""
        _, offset, size = READ_IN.unpack_from(self.body)
        return offset, size

    def name(self) -> bytes:
        """Of a request that has nothing else, as LOOKUP."""
        return self.body.rstrip(b"\0")


def answer(unique: int, *parts: bytes) -> list[bytes]:
    """Pieces of one message."""
    return [OUT.pack(OUT.size + sum(map(len, parts)), 0, unique), *parts]


def refusal(unique: int, error: int) -> list[bytes]:
    """`error`: one of errno."""
    return [OUT.pack(OUT.size, -error, unique)]


def init_reply(request: Request, own_flags: int = ASYNC_READ | PARALLEL_DIROPS,
               most_written: int = 4096) -> list[bytes]:
    """The answer to INIT: flags, and bytes of a write. Raises OSError for a kernel that speaks
    another FUSE."""
    major, minor, _, flags = INIT_IN.unpack_from(request.body)
    if major != MAJOR or minor < MINOR:
        raise OSError(errno.EPROTO, f"the kernel speaks FUSE {major}.{minor}, not {MAJOR}.{MINOR}")
    return answer(request.unique, INIT_OUT.pack(
        MAJOR, MINOR, READAHEAD, flags & own_flags, MOST_WAITING, MOST_WAITING, most_written, 1, 0,
        0, 0))


def entry(inode: int, status: Optional[Status], valid: int = VALID) -> bytes:
    """What a name stands for; None: nothing, which is as certain."""
    if status is None:
        return ENTRY.pack(0, 0, valid, valid, 0, 0) + bytes(ATTRIBUTES.size)
    return ENTRY.pack(inode, 0, valid, valid, 0, 0) + _attributes(inode, status)


def attributes(inode: int, status: Status, valid: int = VALID) -> bytes:
    return VALIDITY.pack(valid, 0, 0) + _attributes(inode, status)


def open_reply(is_folder: bool) -> bytes:
    """The page cache is kept from one opening to the next."""
    return OPENED.pack(0, KEEP_CACHE | CACHE_DIR if is_folder else KEEP_CACHE, 0)


def statistics(blocks: int = 0, free: int = 0) -> bytes:
    """In blocks of 4 KiB."""
    return STATISTICS.pack(blocks, free, free, 0, 0, 4096, 255, 4096, 0)


def list_reply(names: list[tuple[bytes, int, int]], first: int, size: int) -> bytes:
    """From number `first` on what fits into `size` bytes of (name, inode, mode)."""
    reply = b""
    for number, (name, inode, mode) in enumerate(names[first:], first + 1):
        item = NAMED.pack(inode, number, len(name), stat.S_IFMT(mode) >> 12) + name
        item += bytes(-len(item) % 8)
        if len(reply) + len(item) > size:
            break
        reply += item
    return reply


def _attributes(inode: int, status: Status) -> bytes:
    second = 10**9
    times = (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)
    return ATTRIBUTES.pack(
        inode, status.st_size, status.st_blocks, *(time // second for time in times),
        *(time % second for time in times), status.st_mode, status.st_nlink, status.st_uid,
        status.st_gid, 0, 4096, 0)
