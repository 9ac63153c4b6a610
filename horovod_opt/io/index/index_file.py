"""The file of an index: preamble, header in JSON, and little-endian columns that are mapped.

Preamble: 8 bytes that name the format, its version (uint32), crc32c (uint32) and length (uint64) of
the header. The header names each column with kind, offset, length, and crc32c. Columns of [N, P]
are stored part by part. Columns begin at multiples of 64 bytes.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import reprlib
import stat
import struct
from collections.abc import Callable
from hashlib import blake2b

import numpy as np

from horovod_opt.io.errors import Damaged, Missing
from horovod_opt.io.formats import FOLDER, FORMATS, LMDB, TAR
from horovod_opt.io.formats.columns import Texts
from horovod_opt.io.index import column_codec, validation
from horovod_opt.io.index.data_index import DIGEST_BYTES, Index
from horovod_opt.io.index.files import Files
from horovod_opt.io.native import crc32c

MAGIC = b"\x93HOI\r\n\x1a\n"
VERSION = 1
PREAMBLE = struct.Struct("<8sIIQ")
ALIGNMENT = 64  # bytes
FINGERPRINT_BYTES = 12
TYPES = {name: np.dtype(kind) for name, kind in {
    "names": "u1", "name_ends": "<i8", "file_sizes": "<i8", "file_mtimes": "<i8", "file": "<i4",
    "offset": "<i8", "size": "<i8", "crc": "<u4", "label": "<i4", "keys": "u1",
    "key_ends": "<i8", "truncated": "u1"}.items()}


def pieces(index: Index) -> list[bytes]:
    """The file's bytes, in order."""
    columns = {"names": index.files.names.blob, "name_ends": index.files.names.ends,
               "file_sizes": index.files.sizes, "file_mtimes": index.files.mtimes_ns,
               "file": index.file[:, 0], "offset": index.offset.T, "size": index.size.T}
    if index.crc is not None:
        columns["crc"] = index.crc.T
    if index.label is not None:
        columns["label"] = index.label
    if index.keys is not None:
        columns |= {"keys": index.keys.blob, "key_ends": index.keys.ends}
    if index.truncated:  # in a column: earlier versions, which know none, build the index anew
        columns["truncated"] = np.frombuffer(json.dumps(index.truncated).encode(), np.uint8)
    body, descriptions, length = [], {}, 0
    for name, column in columns.items():
        kind, block = ((column_codec.RAW, column.tobytes()) if TYPES[name].itemsize == 1 else
                       column_codec.encode(np.ascontiguousarray(column, TYPES[name])))
        descriptions[name] = {"kind": kind, "offset": length, "length": len(block),
                              "crc": crc32c(block)}
        body += [block, bytes(-len(block) % ALIGNMENT)]
        length += len(block) + len(body[-1])
    header = json.dumps({
        "format": index.format, "samples": index.samples, "files": len(index.files),
        "parts": index.parts, "classes": index.classes, "transactions": index.transactions,
        "digest": index.digest.hex(), "columns": descriptions}).encode()
    header += b" " * (-(PREAMBLE.size + len(header)) % ALIGNMENT)
    return [PREAMBLE.pack(MAGIC, VERSION, crc32c(header), len(header)), header, *body]


def read(path: str, root: str, check_files: Callable[[Files, tuple[int, ...]], None],
         check_owner: Callable[[os.stat_result], None] | None = None) -> Index:
    """Maps an index whose data is in the folder `root`.

    `check_owner`, where whoever wrote it may be a stranger, is called with the file's status and
    raises ValueError; symbolic links are not followed then. `check_files` is called with files and
    transactions before the samples are looked at. Raises Missing if there is no file; Damaged for
    one that is no file, torn, forged, or of a newer version: in memory it takes at most some
    hundred times its size, whatever its header says.
    """
    file_bytes = _map(path, check_owner)
    try:
        header, body = _header(file_bytes)
        counts = _counts(header, len(file_bytes))
        columns = _Columns(header["columns"], body)
        files = Files(Texts(columns.take("names"), columns.take("name_ends", counts["files"])),
                      columns.take("file_sizes", counts["files"]),
                      columns.take("file_mtimes", counts["files"]))
        validation.check_files(files)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damage(path, error) from error
    check_files(files, counts["transactions"])
    try:
        index = _index(header, counts, columns, files, root, path)
        validation.check_index(index)
    except (ValueError, KeyError, TypeError) as error:
        raise _damage(path, error) from error
    return index


class _Columns:
    """Takes columns out of the bytes after the header. Raises ValueError for what is none."""

    def __init__(self, descriptions: dict, body: np.ndarray):
        if set(descriptions) - set(TYPES):
            raise ValueError(f"unknown columns {sorted(set(descriptions) - set(TYPES))}")
        self._descriptions = descriptions
        self._body = body

    def __contains__(self, name: str) -> bool:
        return name in self._descriptions

    def take(self, name: str, rows: int | None = None) -> np.ndarray:
        """The column; as many rows as there are bytes if `rows` is None."""
        description = self._descriptions[name]
        offset, length = (_require_count(description[key]) for key in ("offset", "length"))
        if offset % ALIGNMENT or offset + length > len(self._body):
            raise ValueError(f"column {name} outside of the file")
        block = self._body[offset:offset + length]
        if crc32c(block) != description["crc"]:
            raise ValueError(f"column {name} with a wrong checksum")
        try:
            return column_codec.decode(description["kind"], block, TYPES[name],
                                       length if rows is None else rows)
        except ValueError as error:
            raise ValueError(f"column {name}: {error}") from error


def _map(path: str, check_owner: Callable[[os.stat_result], None] | None) -> np.ndarray:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO is not waited for
    try:
        with open(os.open(path, flags | (os.O_NOFOLLOW if check_owner else 0)), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _damage(path, "it is no file")
            if check_owner:
                check_owner(status)
            if status.st_size < PREAMBLE.size:
                raise _damage(path, "shorter than its preamble")
            return np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.uint8)
    except FileNotFoundError as error:
        raise Missing(f"{path}: no index; remedy: horovod-opt io index") from error
    except ValueError as error:
        raise _damage(path, error) from error
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        raise _damage(path, "it is a symbolic link" if is_link else
                      f"it cannot be read: {error.strerror}") from error


def _header(file_bytes: np.ndarray) -> tuple[dict, np.ndarray]:
    magic, version, crc, length = PREAMBLE.unpack_from(file_bytes)
    if magic != MAGIC:
        raise ValueError("it does not begin as an index")
    if version != VERSION:
        raise ValueError(f"it is of version {version}, but this horovod-opt knows {VERSION}")
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


def _counts(header: dict, file_bytes: int) -> dict:
    """What the header says, if the file's size warrants it."""
    samples, files = _require_count(header["samples"]), _require_count(header["files"])
    parts = _names(header["parts"])
    transactions = tuple(_require_count(number) for number in header["transactions"])
    if header["format"] not in FORMATS:
        raise ValueError(f"format {reprlib.repr(header['format'])}, which is none of "
                         f"{', '.join(FORMATS)}")
    if not parts or len(set(parts)) != len(parts) or (header["format"] != TAR and parts != ("",)):
        raise ValueError(f"parts {reprlib.repr(parts)}")
    if len(transactions) != (files if header["format"] == LMDB else 0):
        raise ValueError(f"{len(transactions)} transactions of {files} files")
    if max(samples * len(parts), files) > file_bytes * column_codec.ROWS_A_BYTE:
        raise ValueError(f"{samples} samples in {files} files, described by {file_bytes} bytes")
    return {"samples": samples, "files": files, "parts": parts, "transactions": transactions}


def _index(header: dict, counts: dict, columns: _Columns, files: Files, root: str,
           place: str) -> Index:
    samples, parts, kind = counts["samples"], counts["parts"], header["format"]
    classes = _names(header["classes"])
    shape = (len(parts), samples)
    if ("label" in columns) != bool(classes) or (classes and kind != FOLDER):
        raise ValueError(f"labels and classes {reprlib.repr(classes)} that do not belong together")
    if ("keys" in columns) != (kind in (TAR, LMDB)):
        raise ValueError(f"keys that do not belong to format {kind}")
    digest = bytes.fromhex(header["digest"])
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"a digest of {len(digest)} bytes")

    def of_parts(name: str) -> np.ndarray:
        return _freeze(columns.take(name, samples * len(parts)).reshape(shape).T)

    return Index(
        format=kind, root=root, files=files, parts=parts, classes=classes,
        file=np.broadcast_to(_freeze(columns.take("file", samples))[:, None], shape[::-1]),
        offset=of_parts("offset"), size=of_parts("size"),
        crc=of_parts("crc") if "crc" in columns else None,
        label=_freeze(columns.take("label", samples)) if classes else None,
        keys=Texts(columns.take("keys"), columns.take("key_ends", samples))
        if "keys" in columns else None,
        transactions=counts["transactions"], digest=digest, place=place,
        fingerprint=_fingerprint(header),
        truncated=_truncated(columns.take("truncated"), len(files))
        if "truncated" in columns else ())


def _truncated(column: np.ndarray, files: int) -> tuple[tuple[int, str], ...]:
    rows = json.loads(column.tobytes())
    if not isinstance(rows, list) or not all(
            isinstance(row, list) and len(row) == 2 and _require_count(row[0]) < files
            and isinstance(row[1], str) for row in rows):
        raise ValueError("truncated files that are none")
    return tuple((file, reason) for file, reason in rows)


def _fingerprint(header: dict) -> str:
    """Of all that the header says but the place of columns, and of their contents but the records'
    checksums, which may be added."""
    columns = {name: description["crc"] for name, description in header["columns"].items()
               if name != "crc"}
    text = json.dumps({**header, "columns": columns}, sort_keys=True)
    return blake2b(text.encode(), digest_size=FINGERPRINT_BYTES).hexdigest()


def _freeze(column: np.ndarray) -> np.ndarray:
    column.flags.writeable = False
    return column


def _require_count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(f"{reprlib.repr(value)}, which is no count")
    return value


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{reprlib.repr(value)}, which are no names")
    return tuple(value)


def _damage(path: str, why: object) -> Damaged:
    if isinstance(why, KeyError):
        why = f"its header lacks {why}"
    return Damaged(f"{path}: this index cannot be used: {why}; remedy: horovod-opt io index "
                   "--rebuild")
