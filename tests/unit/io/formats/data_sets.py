"""Small data sets of each format, for the tests."""

from __future__ import annotations

import io
import os
import struct
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

import google_crc32c
import lmdb


def masked(crc: int) -> int:
    """As in tensorflow/core/lib/hash/crc32c.h."""
    return ((crc >> 15) | (crc << 17) & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return (length + struct.pack("<I", masked(google_crc32c.value(length))) + data
            + struct.pack("<I", masked(google_crc32c.value(data))))


def tfrecord(path: Path, records: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(map(framed, records)))
    return path


def tar(path: Path, members: Iterable[tuple[str, bytes] | tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            archive.addfile(info, io.BytesIO(member[1]))
    return path


def environment(path: Path, records: Mapping[bytes, bytes], **options: object) -> Path:
    with lmdb.open(str(path), map_size=1 << 26, **options) as database:
        with database.begin(write=True) as transaction:
            for key, value in records.items():
                transaction.put(key, value)
    return path


def files(root: Path, contents: Mapping[str, bytes]) -> Path:
    for name, data in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


@contextmanager
def unprivileged():
    """Root reads everything; where the tests run as root, this does not."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
