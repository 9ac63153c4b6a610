"""Contents of files, checked, as programs get them: memory without a name that nobody can change.
The name is what csrc/io/overlay/contents.cc knows it by."""

from __future__ import annotations

import fcntl
import os

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import compression
from horovod_opt.io.index.pack_index import PackIndex
from horovod_opt.io.native import crc32c

SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def read_stored(pack: PackIndex, row: int, part: str) -> bytes:
    """What the tar at `part` has of the file, expanded by nobody. Raises DataError: not what was
    packed."""
    size, place = int(pack.size[row]), int(pack.offset[row])
    try:
        with open(part, "rb", buffering=0) as file:
            pieces, left = [], size
            while left > 0 and (piece := os.pread(file.fileno(), left, place + size - left)):
                pieces.append(piece)
                left -= len(piece)
    except OSError as error:
        raise DataError(f"{part}: {error.strerror}; remedy: bring the part back, as horovod-opt "
                        "io stage does") from error
    stored = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    check(pack, row, stored, part)
    return stored


def check(pack: PackIndex, row: int, stored: bytes, where: str) -> None:
    """Raises DataError where `stored`, from `where`, is not what was packed."""
    if len(stored) != pack.size[row] or crc32c(stored) != pack.crc[row]:
        raise DataError(f"{where} has other bytes of {pack.paths[row]} than when it was packed; "
                        "remedy: bring the part again, as horovod-opt io stage does")


def expand(pack: PackIndex, row: int, stored: bytes) -> bytes:
    """The file's contents. Raises DataError for what cannot be expanded to its size."""
    if pack.size[row] == pack.raw_size[row]:
        return stored
    return compression.expand(stored, int(pack.raw_size[row]), pack.paths[row])


def sealed(table: int, number: int, contents: bytes) -> int:
    """A descriptor of such memory, for the file `number` of the table. Raises OSError."""
    fd = os.memfd_create(f"hvdopt:{table:08x}:{number}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(contents)
        while view:
            view = view[os.write(fd, view):]
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd
