"""What the kernel asks to change, and how that is answered: beside fuse_messages.py, what writing
needs of FUSE. TMPFILE is of FUSE 7.37; a kernel that has it asks whatever was agreed on.

The layouts are those of linux/fuse.h: numbers in the machine's own order.
"""

from __future__ import annotations

import os
import stat
import struct
from typing import NamedTuple

from horovod_lab.io.storage import fuse_messages as fuse
from horovod_lab.io.storage.durable_files import Attributes

SETATTR, SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK = 4, 6, 8, 9, 10, 11, 12, 13
WRITE, FSYNC, FSYNCDIR, CREATE, RENAME2, TMPFILE = 16, 20, 30, 35, 45, 51
SYNCS = (FSYNC, FSYNCDIR)
CHANGES = (SETATTR, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK, WRITE, *SYNCS, CREATE, RENAME2,
           TMPFILE)

BIG_WRITES, AUTO_INVALIDATION = 1 << 5, 1 << 12
INIT_FLAGS = fuse.ASYNC_READ | fuse.PARALLEL_DIROPS | BIG_WRITES | AUTO_INVALIDATION
MOST_WRITTEN = 128 << 10  # bytes of a request
BUFFER = 2 * MOST_WRITTEN  # bytes: more than any request
OF_A_CACHE = 1 << 0  # a write of a page that was mapped, not of a program's call
NO_REPLACING = 1 << 0  # of a rename
MODE, UID, GID, SIZE, ATIME, MTIME = (1 << bit for bit in range(6))
ATIME_NOW, MTIME_NOW = 1 << 7, 1 << 8

SETATTR_IN = struct.Struct("=I4xQQQQQQIIIIIIII")
CREATE_IN = struct.Struct("=IIII")  # flags, mode, umask, more flags
MKNOD_IN = struct.Struct("=IIII")  # mode, device, umask
MKDIR_IN = struct.Struct("=II")  # mode, umask
RENAME_IN = struct.Struct("=Q")  # the new folder
RENAME2_IN = struct.Struct("=QII")  # and flags
LINK_IN = struct.Struct("=Q")  # the file
WRITE_IN = struct.Struct("=QQIIQII")  # handle, offset, size, kind, owner, flags of the file
WRITE_OUT = struct.Struct("=II")
HANDLE = struct.Struct("=Q")


class Write(NamedTuple):
    handle: int
    offset: int
    data: bytes
    appends: bool


class Rename(NamedTuple):
    folder: int
    name: bytes
    new_name: bytes
    flags: int


class Create(NamedTuple):
    name: bytes
    mode: int
    flags: int


def init_reply(request: fuse.Request, keeps_cache: bool) -> list[bytes]:
    """The answer to INIT. With `keeps_cache` what is cached of a changed file stays."""
    flags = INIT_FLAGS & ~AUTO_INVALIDATION if keeps_cache else INIT_FLAGS
    return fuse.init_reply(request, flags, MOST_WRITTEN)


def open_reply(handle: int, keeps_cache: bool) -> bytes:
    """Without any flag: what is cached of the file, or of the folder, is forgotten."""
    return fuse.OPENED.pack(handle, fuse.KEEP_CACHE if keeps_cache else 0, 0)


def write_reply(size: int) -> bytes:
    return WRITE_OUT.pack(size, 0)


def handle(request: fuse.Request) -> int:
    """Of READ, READDIR, FLUSH, FSYNC, FSYNCDIR, RELEASE and RELEASEDIR."""
    return HANDLE.unpack_from(request.body)[0]


def parse_write_size(request: fuse.Request) -> int:
    return WRITE_IN.unpack_from(request.body)[2]


def parse_write(request: fuse.Request) -> Write:
    handle_number, offset, size, kind, _, flags, _ = WRITE_IN.unpack_from(request.body)
    return Write(handle_number, offset, request.body[WRITE_IN.size:WRITE_IN.size + size],
                 bool(flags & os.O_APPEND and not kind & OF_A_CACHE))


def parse_create(request: fuse.Request) -> Create:
    """Of CREATE, TMPFILE, MKNOD and MKDIR."""
    if request.kind == MKNOD:
        (mode, *_), flags, size = MKNOD_IN.unpack_from(request.body), os.O_EXCL, MKNOD_IN.size
    elif request.kind == MKDIR:
        (mode, _), flags, size = MKDIR_IN.unpack_from(request.body), os.O_EXCL, MKDIR_IN.size
        mode = stat.S_IFDIR | mode
    else:
        (flags, mode, *_), size = CREATE_IN.unpack_from(request.body), CREATE_IN.size
    return Create(request.body[size:].rstrip(b"\0"), mode, flags)


def parse_link(request: fuse.Request) -> tuple[int, bytes]:
    """The file, and its new name."""
    return LINK_IN.unpack_from(request.body)[0], request.body[LINK_IN.size:].rstrip(b"\0")


def parse_rename(request: fuse.Request) -> Rename:
    """Of RENAME and RENAME2."""
    if request.kind == RENAME2:
        (folder, flags, _), size = RENAME2_IN.unpack_from(request.body), RENAME2_IN.size
    else:
        (folder,), flags, size = RENAME_IN.unpack_from(request.body), 0, RENAME_IN.size
    name, new_name, _ = request.body[size:].split(b"\0")
    return Rename(folder, name, new_name, flags)


def new_size(request: fuse.Request) -> tuple[bool, int]:
    """Of SETATTR: whether it sets the size, and that."""
    valid, _, size, *_ = SETATTR_IN.unpack_from(request.body)
    return bool(valid & SIZE), size


def new_attributes(request: fuse.Request, old: Attributes, now: int) -> Attributes:
    """What SETATTR makes of them. `now`: ns."""
    (valid, _, _, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, _, uid, gid, _
     ) = SETATTR_IN.unpack_from(request.body)
    second = 10**9
    values = {"ctime_ns": now}
    if valid & MODE:
        values["mode"] = stat.S_IFMT(old.mode) | stat.S_IMODE(mode)
    if valid & UID:
        values["uid"] = uid
    if valid & GID:
        values["gid"] = gid
    if valid & ATIME:
        values["atime_ns"] = now if valid & ATIME_NOW else atime * second + atime_ns
    if valid & MTIME:
        values["mtime_ns"] = now if valid & MTIME_NOW else mtime * second + mtime_ns
    return old._replace(**values)
