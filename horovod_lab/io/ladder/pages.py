"""The pages of an LMDB 0.9 file: its meta pages, and the nodes of branch and leaf pages."""

from __future__ import annotations

import struct
from typing import NamedTuple, Union

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats.lmdb_file import MAGIC, begins

HEADER = struct.Struct("<QHHHH")  # number, pad, flags, lower, upper; of a big value: its pages
HEADER_BYTES = HEADER.size
BRANCH, LEAF, OVERFLOW = 1, 2, 4  # flags of a page
BIG, SUBDATA, DUPLICATES = 1, 2, 4  # flags of a node
NODE = struct.Struct("<HHHH")  # size or page, in two halves; flags or the page's third; key's size
META = struct.Struct("<4sIQQ 48s 48s QQ")
DATABASE = struct.Struct("<IHHQQQQQ")
NONE = (1 << 64) - 1  # the root of an empty database
DUPSORT = 4  # flag of a database
METAS = 2  # pages

Buffer = Union[bytes, memoryview]


class Value(NamedTuple):
    """Where a record is in the file, in bytes, and the first page that a cursor looks at to find it
    beside the leaf's (the leaf itself where the value is in it)."""

    offset: int
    size: int
    page: int


class Meta(NamedTuple):
    """Of the last transaction. `last`: the highest page that is in use."""

    page_bytes: int
    depth: int
    branches: int
    leaves: int
    overflows: int
    records: int
    root: int
    last: int
    transaction: int


def read_meta(path: str) -> Meta:
    """Raises DataError for a file that is not LMDB's, of format 1.0, with DUPSORT, cut off, or
    empty."""
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
            if head[HEADER_BYTES:HEADER_BYTES + 4] != MAGIC:
                reason = ("of LMDB's format 1.0, which the ladder does not read; remedy: write it "
                          "with LMDB 0.9" if begins(head) else "not an LMDB file; remedy: copy or "
                          "make it again")
                raise DataError(f"{path}: {reason}")
            page, = struct.unpack_from("<I", head, HEADER_BYTES + 24)
            file.seek(page)
            metas = [_meta(path, page_head) for page_head in (head, file.read(4096))]
            end = file.seek(0, 2)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; remedy: make it readable, or "
                        "write it") from error
    meta = max(metas, key=lambda meta: meta.transaction)
    if not meta.records:
        raise DataError(f"{path}: it has no records; remedy: write some")
    if end < (meta.last + 1) * page:
        raise DataError(f"{path}: truncated: {end} bytes of {(meta.last + 1) * page}; remedy: copy "
                        "or make it again")
    return meta


def _meta(path: str, head: bytes) -> Meta:
    if len(head) < HEADER_BYTES + META.size:
        raise DataError(f"{path}: truncated in its meta pages; remedy: copy or make it again")
    _, _, _, _, free, main, last, transaction = META.unpack_from(head, HEADER_BYTES)
    page_bytes = DATABASE.unpack(free)[0]
    _, flags, depth, branches, leaves, overflows, records, root = DATABASE.unpack(main)
    if flags & DUPSORT:
        raise DataError(f"{path}: it is made with DUPSORT, so a key can have several values; "
                        "remedy: copy it into a database without")
    return Meta(page_bytes, depth, branches, leaves, overflows, records,
                -1 if root == NONE else root, last, transaction)


class Pages:
    """Of a file that is mapped or in memory. `touch` is called with the number of each page that is
    looked at."""

    def __init__(self, buffer: Buffer, page_bytes: int, touch):
        self._buffer, self.page_bytes, self._touch = buffer, page_bytes, touch

    def is_leaf(self, page: int) -> bool:
        """Raises DataError for a page that is neither leaf nor branch."""
        return bool(self._flags(page, BRANCH | LEAF, "is no page of the tree") & LEAF)

    def children(self, page: int) -> list[int]:
        """The pages below a branch page."""
        pages = []
        for at in self.nodes(page):
            low, high, highest, _ = NODE.unpack_from(self._buffer, at)
            pages.append(low | high << 16 | highest << 32)
        return pages

    def values(self, page: int) -> list[Value]:
        """Of a leaf page, without a look at those that have pages of their own."""
        values = []
        for at in self.nodes(page):
            low, high, flags, key = NODE.unpack_from(self._buffer, at)
            if flags & (SUBDATA | DUPLICATES):
                raise damage_error(page, "holds another database")
            data, size = at + NODE.size + key, low | high << 16
            if data + (8 if flags & BIG else size) > (page + 1) * self.page_bytes:
                raise damage_error(page, "has a node that goes on behind it")
            if flags & BIG:
                big, = struct.unpack_from("<Q", self._buffer, data)
                values.append(Value(big * self.page_bytes + HEADER_BYTES, size, big))
            else:
                values.append(Value(data, size, page))
        return values

    def look_at(self, value: Value) -> None:
        """As LMDB does when a cursor comes to a value: the head of its first page must be that of a
        big value. Raises DataError."""
        if value.offset % self.page_bytes != HEADER_BYTES:
            return  # in the leaf
        self._flags(value.page, OVERFLOW, "is no page of a value")
        if value.offset + value.size > len(self._buffer):
            raise damage_error(value.page, "has a value that goes on behind the file")

    def key_bytes(self, node: int) -> int:
        return NODE.unpack_from(self._buffer, node)[3]

    def nodes(self, page: int) -> list[int]:
        """Where they are in the file, in the order of their keys."""
        base = page * self.page_bytes
        _, _, _, lower, _ = HEADER.unpack_from(self._buffer, base)
        count = (lower - HEADER_BYTES) // 2
        if not 0 < count < self.page_bytes // 2:
            raise damage_error(page, f"has {count} nodes")
        nodes = struct.unpack_from(f"<{count}H", self._buffer, base + HEADER_BYTES)
        if max(nodes) > self.page_bytes - NODE.size:
            raise damage_error(page, "has a node behind it")
        return [base + node for node in nodes]

    def _flags(self, page: int, mask: int, damage: str) -> int:
        """Of a page that has one of the flags that are wanted. Raises DataError."""
        if not METAS <= page < len(self._buffer) // self.page_bytes:
            raise damage_error(page, "is not in the file")
        self._touch(page)
        number, _, flags, _, _ = HEADER.unpack_from(self._buffer, page * self.page_bytes)
        if number != page or not flags & mask:
            raise damage_error(page, damage)
        return flags


def damage_error(page: int, damage: str) -> DataError:
    return DataError(f"LMDB file: page {page} {damage}; remedy: copy or make the file again")
