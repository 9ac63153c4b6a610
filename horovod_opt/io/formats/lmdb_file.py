"""LMDB: the values of one file in the order of their keys, found by a process of its own."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys

import numpy as np

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats.columns import Scan, Texts
from horovod_opt.io.formats.read_buffer import cannot_read

DATA, LOCK = "data.mdb", "lock.mdb"  # in an environment that is a folder
MAGIC = struct.pack("=I", 0xBEEFC0DE)
PAGE_HEADERS = (16, 24)  # bytes before the magic: LMDB 0.9, LMDB 1.0
PAGE_SIZE = 24  # bytes from the magic to the page's size
TRANSACTION = 128  # bytes from the magic to the transaction's number


def begins(head: bytes) -> bool:
    """Whether a file that begins with these 28 or more bytes is LMDB's."""
    return _magic(head) is not None


def last_transaction(path: str) -> int:
    """The number of the last one that was committed; two meta pages hold it in turn."""
    try:
        with open(path, "rb") as file:
            head = file.read(max(PAGE_HEADERS) + TRANSACTION + 8)
            at = _magic(head)
            if at is None:
                raise DataError(f"{path}: not an LMDB file; remedy: copy or make it again")
            page, = struct.unpack_from("=I", head.ljust(at + PAGE_SIZE + 4, b"\0"), at + PAGE_SIZE)
            file.seek(page)
            metas = head[at:], file.read(len(head))[at:]
    except OSError as error:
        raise cannot_read(path, error) from error
    if any(len(meta) < TRANSACTION + 8 for meta in metas):
        raise DataError(f"{path}: truncated in its meta pages; remedy: copy or make it again")
    return max(struct.unpack_from("=Q", meta, TRANSACTION)[0] for meta in metas)


def scan(path: str) -> tuple[Scan, int]:
    """Samples, and the number of the transaction that they belong to.

    Raises DataError for DUPSORT, sub-databases, a format that py-lmdb cannot read, a truncated or
    damaged file, and one that was written meanwhile.
    """
    before = last_transaction(path)
    process = subprocess.run(
        [sys.executable, "-m", "horovod_opt.io.formats.lmdb_scan", path],
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))})
    if last_transaction(path) != before:
        raise DataError(f"{path}: written during the job (transaction {before}, now "
                        f"{last_transaction(path)}); remedy: end its writers first")
    if process.returncode:
        raise DataError(f"{path}: {_reason(process)}")
    head, _, columns = process.stdout.partition(b"\n")
    summary = json.loads(head)
    if summary["transaction"] != before:
        raise DataError(f"{path}: written during the job (transaction {before}, read "
                        f"{summary['transaction']}); remedy: end its writers first")
    n = summary["samples"]
    offset, size, ends = np.frombuffer(columns, np.int64, 3 * n).reshape(3, n)
    keys = Texts(np.frombuffer(columns, np.uint8, offset=24 * n), ends)
    return Scan(("",), offset.reshape(n, 1), size.reshape(n, 1), keys=keys), before


def _magic(head: bytes) -> int | None:
    return next((at for at in PAGE_HEADERS if head[at:at + 4] == MAGIC), None)


def _reason(process: subprocess.CompletedProcess) -> str:
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        return f"truncated or damaged: LMDB ended with {name}; remedy: copy or make the file again"
    lines = process.stderr.decode(errors="replace").strip().splitlines()
    text = lines[-1] if lines else f"reading it ended with status {process.returncode}"
    if "remedy" in text:
        return text
    return f"{text}; remedy: copy or make the file again, or install what is missing"
