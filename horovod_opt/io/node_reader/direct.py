"""A sample straight from its files, past the node's reader: for a look at one."""

from __future__ import annotations

import os

from horovod_opt.io import native
from horovod_opt.io.errors import TruncatedFile
from horovod_opt.io.formats.unpacked_file import UnpackedFile
from horovod_opt.io.node_reader import records


def read_directly(index, number: int) -> tuple[list[bytes], list[int]]:
    """The parts of sample `number`, and the status of each (records.py). A compressed file is
    unpacked up to there."""
    parts, status = [], []
    for part in range(len(index.parts)):
        size, offset = int(index.size[number, part]), int(index.offset[number, part])
        file_number = int(index.file[number, part])
        try:
            if index.is_packed(file_number):
                data = _unpacked(index.path(file_number), size, offset)
            else:
                with open(index.path(file_number), "rb", buffering=0) as file:
                    data = _whole(file.fileno(), size, offset)
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


def _unpacked(path: str, size: int, offset: int) -> bytes:
    with UnpackedFile(path) as contents:
        try:
            contents.seek(offset)
            return contents.read(size)
        except TruncatedFile:
            return b""


def _whole(file: int, size: int, offset: int) -> bytes:
    pieces = []
    while size:
        piece = os.pread(file, size, offset)
        if not piece:
            break
        pieces.append(piece)
        size, offset = size - len(piece), offset + len(piece)
    return b"".join(pieces)
