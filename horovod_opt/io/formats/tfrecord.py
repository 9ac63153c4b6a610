"""TFRecord: length, masked crc32c of the length, data, masked crc32c of the data.

The format: tensorflow/core/lib/io/record_writer.h.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable

import numpy as np

from horovod_opt.io.errors import DataError, TruncatedFile
from horovod_opt.io.formats.columns import Scan
from horovod_opt.io.formats.read_buffer import (
    AGAIN_OR_PART,
    BLOCK,
    ReadBuffer,
    with_nothing_before,
)
from horovod_opt.io.formats.unpacked_file import UnpackedFile
from horovod_opt.io.native import crc32c

HEAD = struct.Struct("<QI")  # length of the data, masked crc of these 8 bytes
TAIL = struct.Struct("<I")  # masked crc of the data
MASK = 0xA282EAD8
STRUCTURE_BLOCK = TAIL.size + HEAD.size  # bytes from the end of a record's data to the next one's
REPORT_BYTES = 8 << 20  # bytes between two reports of progress


def unmask(masked: int) -> int:
    """The crc32c that was stored as `masked`."""
    rotated = (masked - MASK) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


def mask(crc: int) -> int:
    """How a crc32c is stored: a checksum of data that holds checksums is a weak one."""
    return ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF


def begins(head: bytes) -> bool:
    """Whether a file that begins with these 12 or more bytes is a TFRecord file."""
    return len(head) >= HEAD.size and _length(head[:HEAD.size]) is not None


def scan(path: str, size: int, contents: bool, advance: Callable[[int], None],
         keep_truncated: bool = False, packed: UnpackedFile | None = None) -> Scan:
    """The records of the first `size` bytes of a file, or of all contents of one that is `packed`;
    their checksums are those it holds.

    With `contents` all data is read and compared with them; without, none of it. `advance` is
    called with numbers of bytes. Raises TruncatedFile, and where the checksum of a length is wrong,
    as no later record can be found then; not with `keep_truncated`, if there is a record before.
    """
    offsets, sizes, crcs = array("q"), array("q"), array("I")
    damages, truncation = [], ""
    position = reported = 0
    end_of_file = size if packed is None else sys.maxsize
    with ReadBuffer(path, size, BLOCK if contents or packed else STRUCTURE_BLOCK,
                    packed) as buffer:
        try:
            while buffer.has(position):
                if position + HEAD.size > end_of_file:
                    raise _truncation(path, len(sizes), position, position + HEAD.size, size)
                head = buffer.take(position, HEAD.size)
                length = _length(head)
                if length is None:
                    raise _no_record(path, len(sizes), position)
                start = position + HEAD.size
                end = start + length
                if end + TAIL.size > end_of_file:
                    raise _truncation(path, len(sizes), position, end + TAIL.size, size)
                actual = buffer.crc32c(start, length) if contents else None
                stored = unmask(*TAIL.unpack(buffer.take(end, TAIL.size)))
                if contents and actual != stored:
                    damages.append(f"{path}: record {len(sizes)}, byte {position}: the file holds "
                                   f"checksum {stored:08x}, but its data has {actual:08x}")
                offsets.append(start)
                sizes.append(length)
                crcs.append(stored)
                position = end + TAIL.size
                if position - reported >= REPORT_BYTES:
                    advance(position - reported)
                    reported = position
        except TruncatedFile as error:
            if not keep_truncated:
                raise
            if not sizes:
                raise with_nothing_before(error) from error
            truncation = str(error)
    advance(position - reported)
    return Scan(("",), _column(offsets, np.int64), _column(sizes, np.int64),
                _column(crcs, np.uint32), damages=damages, truncation=truncation)


def _length(head: bytes) -> int | None:
    """The data's length, or None if its checksum is wrong."""
    length, crc = HEAD.unpack(head)
    return length if mask(crc32c(head[:8])) == crc else None


def _column(values: array, kind: type) -> np.ndarray:
    return np.array(values, kind).reshape(-1, 1)


def _truncation(path: str, record: int, position: int, end: int, size: int) -> DataError:
    return TruncatedFile(f"{path}: truncated: record {record}, at byte {position}, would end at "
                         f"byte {end}, but the file at {size}; {AGAIN_OR_PART}")


def _no_record(path: str, record: int, position: int) -> DataError:
    return TruncatedFile(f"{path}: record {record}, at byte {position}: the checksum of its length "
                         f"is wrong, so that no later record can be found; {AGAIN_OR_PART}")
