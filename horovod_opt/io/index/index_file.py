"""The file of an index: columns of [N, P] are stored part by part."""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Callable

import numpy as np

from horovod_opt.io.errors import Damaged
from horovod_opt.io.formats import FOLDER, FORMATS, LMDB, TAR
from horovod_opt.io.formats.columns import Texts
from horovod_opt.io.index import column_codec, column_file, validation
from horovod_opt.io.index.column_file import ColumnBlocks, require_count, require_names
from horovod_opt.io.index.data_index import DIGEST_BYTES, Index
from horovod_opt.io.index.files import Files

MAGIC = b"\x93HOI\r\n\x1a\n"
VERSION = 1
TYPES = {name: np.dtype(kind) for name, kind in {
    "names": "u1", "name_ends": "<i8", "file_sizes": "<i8", "file_mtimes": "<i8", "file": "<i4",
    "offset": "<i8", "size": "<i8", "crc": "<u4", "label": "<i4", "keys": "u1",
    "key_ends": "<i8", "truncated": "u1", "unpacked": "<i8"}.items()}


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
    if index.unpacked is not None:  # the same
        columns["unpacked"] = index.unpacked
    header = {
        "format": index.format, "samples": index.samples, "files": len(index.files),
        "parts": index.parts, "classes": index.classes, "transactions": index.transactions,
        "digest": index.digest.hex()}
    return column_file.pieces(MAGIC, VERSION, header, columns, TYPES)


def read(path: str, root: str, check_files: Callable[[Files, tuple[int, ...]], None],
         check_owner: Callable[[os.stat_result], None] | None = None) -> Index:
    """Maps an index whose data is in the folder `root`.

    `check_owner`, where whoever wrote it may be a stranger, is called with the file's status and
    raises ValueError; symbolic links are not followed then. `check_files` is called with files and
    transactions before the samples are looked at. Raises Missing if there is no file; Damaged for
    one that is no file, torn, forged, or of a newer version: in memory it takes at most some
    hundred times its size, whatever its header says.
    """
    file_bytes = column_file.map_file(path, _damage, check_owner)
    try:
        header, body = column_file.take_header(file_bytes, MAGIC, VERSION)
        counts = _counts(header, len(file_bytes))
        columns = ColumnBlocks(header["columns"], body, TYPES)
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


def _counts(header: dict, file_bytes: int) -> dict:
    """What the header says, if the file's size warrants it."""
    samples, files = require_count(header["samples"]), require_count(header["files"])
    parts = require_names(header["parts"])
    transactions = tuple(require_count(number) for number in header["transactions"])
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


def _index(header: dict, counts: dict, columns: ColumnBlocks, files: Files, root: str,
           place: str) -> Index:
    samples, parts, kind = counts["samples"], counts["parts"], header["format"]
    classes = require_names(header["classes"])
    shape = (len(parts), samples)
    if ("label" in columns) != bool(classes) or (classes and kind != FOLDER):
        raise ValueError(f"labels and classes {reprlib.repr(classes)} that do not belong together")
    if ("keys" in columns) != (kind in (TAR, LMDB)):
        raise ValueError(f"keys that do not belong to format {kind}")
    digest = bytes.fromhex(header["digest"])
    if len(digest) != DIGEST_BYTES:
        raise ValueError(f"a digest of {len(digest)} bytes")

    def of_parts(name: str) -> np.ndarray:
        return columns.take(name, samples * len(parts)).reshape(shape).T

    return Index(
        format=kind, root=root, files=files, parts=parts, classes=classes,
        file=np.broadcast_to(columns.take("file", samples)[:, None], shape[::-1]),
        offset=of_parts("offset"), size=of_parts("size"),
        crc=of_parts("crc") if "crc" in columns else None,
        label=columns.take("label", samples) if classes else None,
        keys=Texts(columns.take("keys"), columns.take("key_ends", samples))
        if "keys" in columns else None,
        transactions=counts["transactions"], digest=digest, place=place,
        fingerprint=column_file.fingerprint_of(header, without="crc"),
        truncated=_truncated(columns.take("truncated"), len(files))
        if "truncated" in columns else (),
        unpacked=columns.take("unpacked", len(files)) if "unpacked" in columns else None)


def _truncated(column: np.ndarray, files: int) -> tuple[tuple[int, str], ...]:
    rows = json.loads(column.tobytes())
    if not isinstance(rows, list) or not all(
            isinstance(row, list) and len(row) == 2 and require_count(row[0]) < files
            and isinstance(row[1], str) for row in rows):
        raise ValueError("truncated files that are none")
    return tuple((file, reason) for file, reason in rows)


def _damage(path: str, why: object) -> Damaged:
    if isinstance(why, KeyError):
        why = f"its header lacks {why}"
    return Damaged(f"{path}: this index cannot be used: {why}; remedy: horovod-opt io index "
                   "--rebuild")
