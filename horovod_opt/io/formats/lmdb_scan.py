"""Where the values of an LMDB file are: python -m horovod_opt.io.formats.lmdb_scan PATH.

A program of its own: LMDB maps the file and trusts every page of it, so a truncated or damaged
one ends the process; and one process may open an environment only once, which the user may have
done. Written to stdout: a line of JSON, then the bytes of offsets, sizes, ends of keys (int64),
and keys. An offset in the file is the address of the value minus the mapping's start, as in the
dissertation, 5.2.1.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from array import array

import lmdb
import numpy as np

RECORD_OF_DATABASE = 48  # bytes: how long the value is that describes a sub-database


class Unusable(Exception):
    """What is wrong, and the remedy."""


def scan(path: str) -> None:
    """Writes the columns to stdout. Raises Unusable and lmdb.Error."""
    # Without a lock: the folder may be read-only. A writer is seen by its transaction.
    environment = lmdb.open(path, subdir=False, readonly=True, lock=False, max_dbs=1)
    offsets, sizes, ends, keys = array("q"), array("q"), array("q"), bytearray()
    with environment.begin(buffers=True) as transaction:
        main = environment.open_db(None, txn=transaction)
        if main.flags(transaction)["dupsort"]:
            raise Unusable("it is made with DUPSORT, so a key can have several values; remedy: "
                           "copy it into a database without")
        start, length = _mapping(path)
        for key, value in transaction.cursor(main):
            if len(value) == RECORD_OF_DATABASE:
                _refuse_database(environment, transaction, bytes(key))
            offset = 0
            if len(value):
                offset = np.frombuffer(value, np.uint8).__array_interface__["data"][0] - start
                if not 0 <= offset < length:
                    raise Unusable(f"key {bytes(key).hex()}: its value is not in the mapping of "
                                   "the file; remedy: copy the file to a file system that shows "
                                   "its path in /proc/self/maps")
            offsets.append(offset)
            sizes.append(len(value))
            keys += key
            ends.append(len(keys))
        _compare(path, transaction, offsets, sizes, keys, ends)
        summary = {"samples": len(sizes), "transaction": transaction.id()}
    out = sys.stdout.buffer
    out.write(json.dumps(summary).encode() + b"\n")
    for column in (offsets, sizes, ends, keys):
        out.write(column)
    out.flush()


def _mapping(path: str) -> tuple[int, int]:
    """Address and length, in bytes, of where this process has mapped the file."""
    real = os.path.realpath(path)
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        ranges = [line.split(maxsplit=5) for line in maps]
    addresses = [tuple(int(number, 16) for number in fields[0].split("-")) for fields in ranges
                 if len(fields) == 6 and fields[5].rstrip("\n") == real]
    if not addresses:
        raise Unusable("its mapping is not in /proc/self/maps; remedy: copy the file to a file "
                       "system that shows it there")
    start = min(first for first, _ in addresses)
    return start, max(last for _, last in addresses) - start


def _refuse_database(environment: lmdb.Environment, transaction: lmdb.Transaction,
                     key: bytes) -> None:
    try:
        environment.open_db(key, txn=transaction, create=False)
    except lmdb.Error:  # an ordinary value, which happens to be as long
        return
    raise Unusable(f"it holds the sub-database {key!r}; remedy: copy the records into the "
                   "unnamed database of a file of its own")


def _compare(path: str, transaction: lmdb.Transaction, offsets: array, sizes: array,
             keys: bytearray, ends: array) -> None:
    """The first and the last value must be what is read from the file at their offsets."""
    with open(path, "rb") as file:
        for i in {0, len(sizes) - 1} if sizes else ():
            key = bytes(keys[ends[i - 1] if i else 0:ends[i]])
            file.seek(offsets[i])
            if file.read(sizes[i]) != bytes(transaction.get(key)):
                raise Unusable(f"key {key.hex()}: byte {offsets[i]} of the file is not its "
                               "value's; remedy: close the programs that write it, index again")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # its death is an answer, not a bug
    try:
        scan(sys.argv[1])
    except (Unusable, lmdb.Error, OSError) as error:
        sys.exit(str(error))
