"""Which programs a library that is loaded before libc can help, and how they are started."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

from horovod_opt.io.errors import InputError

VARIABLE = "HIO_OVERLAY"  # no setting of Horovod's: hvd.init() knows all that begin as they do
PRELOAD = "LD_PRELOAD"
_PT_INTERP = 3
_DEPTH = 4  # of interpreters of interpreters, as the kernel has


def require_dynamic(program: str, variables: Mapping[str, str]) -> str:
    """The path of `program`. Raises InputError for one that starts without the library: there is
    none, it is linked statically, with another libc or for another machine, or runs as another
    user."""
    path = shutil.which(program, path=variables.get("PATH", os.defpath))
    if path is None:
        raise InputError(f"{program}: no such program; remedy: its path, or another PATH")
    file = path
    for _ in range(_DEPTH):
        begin = _begin(file)
        if not begin.startswith(b"#!"):
            break
        words = begin[2:].split(b"\n", 1)[0].split()
        if not words:
            break
        file = os.fsdecode(words[0])
        if os.path.basename(file) == "env" and len(words) > 1:
            name = next((word for word in words[1:] if b"=" not in word and word[:1] != b"-"), b"")
            file = shutil.which(os.fsdecode(name), path=variables.get("PATH", os.defpath)) or file
    why = _obstacle(file)
    if why:
        raise InputError(f"{program}: {file} {why}, so it would not see the pack's files; remedy: "
                         "a mount of SquashFS, or files by tar xf of each of the pack's tars")
    return path


def environment(variables: Mapping[str, str], library: Path, table: str) -> dict[str, str]:
    """`variables`, and what makes a program see the table."""
    others = [word for word in variables.get(PRELOAD, "").replace(":", " ").split()
              if word != str(library)]
    return {**variables, VARIABLE: table, PRELOAD: ":".join([str(library), *others])}


def _begin(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(4096)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; remedy: a program that can be read") from error


def _obstacle(path: str) -> str:
    """Why the program starts without what LD_PRELOAD names; "" if nothing speaks against it."""
    begin = _begin(path)
    if begin[:4] != b"\x7fELF":
        return ""  # a script without a first line: the shell's
    if begin[4] != 2 or begin[5] != (1 if sys.byteorder == "little" else 2) or (
            begin[18:20] != _begin(sys.executable)[18:20]):
        return "is for another machine"
    if os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID) or _has_capabilities(path):
        return "runs with the rights of another user"
    interpreter = _interpreter(path, begin)
    if not interpreter:
        return "is linked statically"
    if b"musl" in interpreter:
        return "has another libc, musl"
    return ""


def _interpreter(path: str, begin: bytes) -> bytes:
    place, = struct.unpack_from("=Q", begin, 32)
    size, count = struct.unpack_from("=HH", begin, 54)
    with open(path, "rb") as file:
        file.seek(place)
        headers = file.read(size * count)
        for at in range(0, len(headers) - 55, size):
            kind, = struct.unpack_from("=I", headers, at)
            if kind == _PT_INTERP:
                offset, = struct.unpack_from("=Q", headers, at + 8)
                length, = struct.unpack_from("=Q", headers, at + 32)
                file.seek(offset)
                return file.read(min(length, 4096))
    return b""


def _has_capabilities(path: str) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False
