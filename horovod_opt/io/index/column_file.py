"""A file of columns: preamble, header in JSON, and little-endian columns that are mapped.

Preamble: 8 bytes that name the format, its version (uint32), crc32c (uint32) and length (uint64) of
the header. The header names each column with kind, offset, length, and crc32c. Columns begin at
multiples of 64 bytes.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import reprlib
import stat
import struct
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from horovod_opt.io.errors import Damaged, Missing
from horovod_opt.io.index import column_codec
from horovod_opt.io.native import crc32c

PREAMBLE = struct.Struct("<8sIIQ")
ALIGNMENT = 64  # bytes
FINGERPRINT_BYTES = 12


def pieces(magic: bytes, version: int, header: Mapping[str, Any], columns: Mapping[str, Any],
           types: Mapping[str, np.dtype]) -> list[bytes]:
    """The file's bytes, in order."""
    body, descriptions, length = [], {}, 0
    for name, column in columns.items():
        kind, block = ((column_codec.RAW, column.tobytes()) if types[name].itemsize == 1 else
                       column_codec.encode(np.ascontiguousarray(column, types[name])))
        descriptions[name] = {"kind": kind, "offset": length, "length": len(block),
                              "crc": crc32c(block)}
        body += [block, bytes(-len(block) % ALIGNMENT)]
        length += len(block) + len(body[-1])
    text = json.dumps({**header, "columns": descriptions}).encode()
    text += b" " * (-(PREAMBLE.size + len(text)) % ALIGNMENT)
    return [PREAMBLE.pack(magic, version, crc32c(text), len(text)), text, *body]


class ColumnBlocks:
    """Takes columns out of the bytes after the header. Raises ValueError for what is none."""

    def __init__(self, descriptions: dict, body: np.ndarray, types: Mapping[str, np.dtype]):
        if set(descriptions) - set(types):
            raise ValueError(f"unknown columns {sorted(set(descriptions) - set(types))}")
        self._descriptions = descriptions
        self._body = body
        self._types = types

    def __contains__(self, name: str) -> bool:
        return name in self._descriptions

    def take(self, name: str, rows: int | None = None) -> np.ndarray:
        """The column; as many rows as there are bytes if `rows` is None."""
        description = self._descriptions[name]
        offset, length = (require_count(description[key]) for key in ("offset", "length"))
        if offset % ALIGNMENT or offset + length > len(self._body):
            raise ValueError(f"column {name} outside of the file")
        block = self._body[offset:offset + length]
        if crc32c(block) != description["crc"]:
            raise ValueError(f"column {name} with a wrong checksum")
        try:
            column = column_codec.decode(description["kind"], block, self._types[name],
                                         length if rows is None else rows)
        except ValueError as error:
            raise ValueError(f"column {name}: {error}") from error
        column.flags.writeable = False
        return column


def map_file(path: str, damage: Callable[[str, object], Damaged],
             check_owner: Callable[[os.stat_result], None] | None) -> np.ndarray:
    """Its bytes. Raises Missing, and what `damage(path, why)` makes; `check_owner` as in
    index_file.read."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO is not waited for
    try:
        with open(os.open(path, flags | (os.O_NOFOLLOW if check_owner else 0)), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise damage(path, "it is no file")
            if check_owner:
                check_owner(status)
            if status.st_size < PREAMBLE.size:
                raise damage(path, "shorter than its preamble")
            return np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.uint8)
    except FileNotFoundError as error:
        raise Missing(f"{path}: no index; remedy: horovod-opt io index") from error
    except ValueError as error:
        raise damage(path, error) from error
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        raise damage(path, "it is a symbolic link" if is_link else
                     f"it cannot be read: {error.strerror}") from error


def take_header(file_bytes: np.ndarray, magic: bytes, version: int) -> tuple[dict, np.ndarray]:
    """The header, and the bytes after it. Raises ValueError for what is none."""
    own_magic, own_version, crc, length = PREAMBLE.unpack_from(file_bytes)
    if own_magic != magic:
        raise ValueError("it does not begin as an index")
    if own_version != version:
        raise ValueError(f"it is of version {own_version}, but this horovod-opt knows {version}")
    end = PREAMBLE.size + length
    if end > len(file_bytes):
        raise ValueError(f"a header of {length} bytes in a file of {len(file_bytes)}")
    text = file_bytes[PREAMBLE.size:end].tobytes()
    if crc32c(text) != crc:
        raise ValueError("its header has a wrong checksum")
    header = json.loads(text)
    if not isinstance(header, dict) or not isinstance(header["columns"], dict):
        raise ValueError("its header is none")
    return header, file_bytes[end:]


def fingerprint_of(header: dict, without: str = "") -> str:
    """Of all that the header says but the place of columns, and of their contents but those of the
    column `without`."""
    columns = {name: description["crc"] for name, description in header["columns"].items()
               if name != without}
    text = json.dumps({**header, "columns": columns}, sort_keys=True)
    return blake2b(text.encode(), digest_size=FINGERPRINT_BYTES).hexdigest()


def require_count(value: object) -> int:
    """Raises ValueError for what is none."""
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(f"{reprlib.repr(value)}, which is no count")
    return value


def require_names(value: object) -> tuple[str, ...]:
    """Raises ValueError for what are none."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{reprlib.repr(value)}, which are no names")
    return tuple(value)
