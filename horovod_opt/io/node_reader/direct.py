"""A sample straight from its files, past the node's reader: for a look at one."""

from __future__ import annotations

import os

from horovod_opt.io import native
from horovod_opt.io.node_reader import records


def read_directly(index, number: int) -> tuple[list[bytes], list[int]]:
    """The parts of sample `number`, and the status of each (records.py)."""
    parts, status = [], []
    for part in range(len(index.parts)):
        size = int(index.size[number, part])
        try:
            with open(index.path(int(index.file[number, part])), "rb", buffering=0) as file:
                data = _whole(file.fileno(), size, int(index.offset[number, part]))
        except OSError as error:
            parts.append(b"")
            status.append(error.errno)
            continue
        parts.append(data)
        if len(data) < size:
            status.append(records.TRUNCATED)
        elif index.crc is not None and native.crc32c(data) != int(index.crc[number, part]):
            status.append(records.CHECKSUM)
        else:
            status.append(records.GOOD)
    return parts, status


def _whole(file: int, size: int, offset: int) -> bytes:
    pieces = []
    while size:
        piece = os.pread(file, size, offset)
        if not piece:
            break
        pieces.append(piece)
        size, offset = size - len(piece), offset + len(piece)
    return b"".join(pieces)
