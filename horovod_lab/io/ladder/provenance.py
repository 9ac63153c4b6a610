"""Provenance of an LMDB file: six numbers of its creation, from which the place of each record is
computed without a look at the file (dissertation, 5.2.2).

LMDB's way to give out pages is deterministic. A page that an earlier transaction wrote is copied
before it is changed, and the old one may be used again two transactions later. So for records of
one size, added in the order of their keys, these are known: which pages the tree gets, and which
are left for the records. That holds for LMDB 0.9 and a writer beside which nobody reads.

    python -m horovod_lab.io.ladder.provenance FOLDER     # collects them by one scan
"""

from __future__ import annotations

import json
import mmap
import sys
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Optional

import numpy as np

from horovod_lab.io.ladder.cursor import Cursor
from horovod_lab.io.ladder.pages import HEADER_BYTES, METAS, NODE, Meta, Pages, read_meta
from horovod_opt.io.errors import DataError

FILE = "provenance.json"  # in the folder of the database
APPENDED = "appended"  # the only order that is computed: that of the keys


@dataclass(frozen=True)
class Provenance:
    """The six of the source: how many records a transaction has, the most records of a leaf and the
    most children of a branch, the bytes of a record (value and key), the order, the meta pages.
    `records` and `page_bytes` are those of the file that it belongs to."""

    commit_records: int
    leaf_records: int
    branch_children: int
    record_bytes: int
    key_bytes: int
    order: str
    meta_pages: int
    records: int
    page_bytes: int

    @property
    def transactions(self) -> int:
        return -(-self.records // self.commit_records)

    @property
    def has_big_values(self) -> bool:
        """Whether a record has pages of its own: a leaf must have room for two (me_nodemax)."""
        most = (((self.page_bytes - HEADER_BYTES) // 2) & ~1) - 2
        return NODE.size + self.key_bytes + self.record_bytes > most


@dataclass(frozen=True)
class Layout:
    """Where all records are, int64[records] in bytes, and what the meta page must say then."""

    offset: np.ndarray
    size: int
    depth: int
    branches: int
    leaves: int
    overflows: int
    last: int


def layout(provenance: Provenance) -> Layout:
    """Raises DataError for an order that cannot be computed."""
    if provenance.order != APPENDED:
        raise DataError(f"provenance: order {provenance.order!r} cannot be computed; remedy: write "
                        f"the records in the order of their keys ({APPENDED!r})")
    writer = _Writer(provenance)
    for number in range(provenance.records):
        if number % provenance.commit_records == 0:
            if number:
                writer.commit()
            writer.begin()
        writer.add()
    writer.commit()
    if provenance.has_big_values:
        offset = np.array(writer.values, np.int64) * provenance.page_bytes + HEADER_BYTES
    else:
        leaves = np.array(writer.leaves, np.int64)
        pages = np.repeat(leaves, provenance.leaf_records)[:provenance.records]
        head = NODE.size + provenance.key_bytes
        node = -(-(head + provenance.record_bytes) // 2) * 2
        places = np.arange(provenance.records) % provenance.leaf_records + 1  # from the leaf's end
        offset = (pages + 1) * provenance.page_bytes - places * node + head
    return Layout(offset, provenance.record_bytes, len(writer.path), writer.branches,
                  len(writer.leaves), len(writer.values) * writer.value_pages, writer.next_page - 1)


def check(path: str, provenance: Provenance, meta: Meta) -> Layout:
    """The layout. Raises DataError where the file's meta page says that it is another."""
    result = layout(provenance)
    numbers = {"records": provenance.records, "transaction": provenance.transactions,
               "depth": result.depth, "branches": result.branches, "leaves": result.leaves,
               "overflows": result.overflows, "last": result.last}
    for name, value in numbers.items():
        if getattr(meta, name) != value:
            raise DataError(f"{path}: {name} {getattr(meta, name)}, but {value} by its provenance, "
                            "so its records are elsewhere; remedy: collect the provenance again")
    return result


def collect(path: str) -> Provenance:
    """By one scan of the tree. Raises DataError for a file that was not written in the order of its
    keys, with records and keys of one size, by transactions of equally many records."""
    meta = read_meta(path)
    with open(path, "rb") as file, \
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping, \
            memoryview(mapping) as view:
        pages = Pages(view, meta.page_bytes, lambda page: None)
        values = Cursor(pages, meta.root).take(meta.records)
        tree = _shape(pages, meta.root)
    sizes = {value.size for value in values}
    if len(sizes) != 1:
        raise _mismatch(path, f"its records have {min(sizes)} to {max(sizes)} bytes")
    size, = sizes
    offsets = np.array([value.offset for value in values])

    def difference(provenance: Provenance) -> Optional[int]:
        """The first record that is not where this provenance puts it."""
        differ = np.flatnonzero(layout(provenance).offset != offsets)
        return int(differ[0]) if len(differ) else None

    # A branch that is full gives its last child away, so the most that are seen may be one less.
    for children in (tree.branch_children, tree.branch_children + 1):
        single = Provenance(meta.records, tree.leaf_records, children, size, tree.key_bytes,
                            APPENDED, METAS, meta.records, meta.page_bytes)
        # The first transaction is laid out as if it were the only one.
        end = difference(single)
        for commit in _candidates(single, meta.transaction, end):
            candidate = replace(single, commit_records=commit)
            if difference(candidate) is None:
                check(path, candidate, meta)
                return candidate
    raise _mismatch(path, f"its {meta.records} records of {meta.transaction} transactions are not "
                    "where equal transactions put them")


def _candidates(provenance: Provenance, transactions: int, end: Optional[int]) -> list[int]:
    """How many records each of so many transactions may have, if record `end` is the first that is
    not where a single one would put it."""
    if end is None:
        return [provenance.records] if transactions == 1 else []
    # A leaf is copied as a whole, so of records inside the leaves any of its may be meant.
    last = end if provenance.has_big_values else end + provenance.leaf_records
    first = max(1, last if provenance.has_big_values else -(-provenance.records // transactions))
    return [commit for commit in range(first, min(last, provenance.records) + 1)
            if -(-provenance.records // commit) == transactions]


def write(folder: Path) -> None:
    """Collects the provenance of the database in the folder. Raises DataError as `collect` does."""
    provenance = collect(str(folder / "data.mdb"))
    (folder / FILE).write_text(json.dumps(asdict(provenance)) + "\n")


def read(folder: Path) -> Provenance:
    """Raises DataError where there is none, or something else."""
    path = folder / FILE
    remedy = f"remedy: python -m {__spec__.name} {folder}"
    try:
        return Provenance(**json.loads(path.read_text()))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; {remedy}") from None
    except (ValueError, TypeError):
        raise DataError(f"{path}: not a provenance file; {remedy}") from None


def _mismatch(path: str, why: str) -> DataError:
    return DataError(f"{path}: was not written as strategy prov assumes: {why}; remedy: write it "
                     "anew in the order of its keys, or use another strategy")


@dataclass(frozen=True)
class _Shape:
    leaf_records: int
    branch_children: int
    key_bytes: int


def _shape(pages: Pages, root: int) -> _Shape:
    """The most records of a leaf, the most children of a branch, and the size of a key."""
    counts: dict[bool, Counter] = {True: Counter(), False: Counter()}
    below, key_bytes = [root], 0
    while below:
        page = below.pop()
        is_leaf = pages.is_leaf(page)
        nodes = pages.nodes(page)
        counts[is_leaf][len(nodes)] += 1
        if not is_leaf:
            below += pages.children(page)
        else:
            key_bytes = pages.key_bytes(nodes[0])
    return _Shape(max(counts[True]), max(counts[False], default=0), key_bytes)


class _Writer:
    """LMDB's writer: which page each thing gets. `path`: the pages from the root to the last leaf,
    with the number of nodes of each. `leaves` and `values`: the pages of all of them."""

    def __init__(self, provenance: Provenance):
        self._provenance = provenance
        self.next_page = provenance.meta_pages
        self.path: list[list[int]] = []
        self.leaves: list[int] = []
        self.values: list[int] = []
        self.branches = 0
        self.value_pages = (-(-(HEADER_BYTES + provenance.record_bytes) // provenance.page_bytes)
                            if provenance.has_big_values else 0)
        self._transaction = 0
        self._free: dict[int, list[int]] = {}  # by transaction, the pages that it left
        self._free_page: Optional[int] = None  # of the list of free pages itself

    def begin(self) -> None:
        self._transaction += 1
        self._old_pages: list[int] = []
        self._usable_pages: list[int] = []
        self._is_dirty = False

    def add(self) -> None:
        """A record, behind all others."""
        if not self.path:
            self.path = [[self._page(), 0]]
            self.leaves.append(self.path[0][0])
        elif not self._is_dirty:
            for level in self.path:
                self._old_pages.append(level[0])
                level[0] = self._page()
            self.leaves[-1] = self.path[-1][0]
        self._is_dirty = True
        if self.path[-1][1] == self._provenance.leaf_records:
            self._new_leaf()
        self.path[-1][1] += 1
        if self.value_pages:
            self.values.append(self._page(self.value_pages))

    def commit(self) -> None:
        """The list of free pages is in a tree of its own: here one page, copied as others are."""
        if self._old_pages or self._usable_pages:
            if self._free_page is not None:
                self._old_pages.append(self._free_page)
            self._free_page = self._page()
        self._free[self._transaction] = self._old_pages
        self._free[0] = self._usable_pages  # as old as before

    def _new_leaf(self) -> None:
        page = self._page()
        self.leaves.append(page)
        self._add_child(len(self.path) - 2, page)
        self.path[-1] = [page, 0]

    def _add_child(self, level: int, page: int) -> None:
        """To the last branch of a level. A full one keeps all but the last of its children, which
        goes with the new one into a new branch (mdb_page_split)."""
        if level < 0:
            self.path.insert(0, [self._page(), 2])
            self.branches += 1
        elif self.path[level][1] < self._provenance.branch_children:
            self.path[level][1] += 1
        else:
            beside, above_leaves = self._page(), level - len(self.path)
            self.branches += 1
            self._add_child(level - 1, beside)
            self.path[above_leaves] = [beside, 2]

    def _page(self, count: int = 1) -> int:
        """The first of `count` pages: the lowest that are free, else behind all others."""
        while True:
            run = self._run(count)
            if run is not None:
                return run
            old = [transaction for transaction in self._free if transaction < self._transaction - 1]
            if not old:
                break
            self._usable_pages += self._free.pop(min(old))
        self.next_page += count
        return self.next_page - count

    def _run(self, count: int) -> Optional[int]:
        free = sorted(self._usable_pages)
        for first in free:
            if all(first + i in self._usable_pages for i in range(count)):
                self._usable_pages = [page for page in free if not first <= page < first + count]
                return first
        return None


if __name__ == "__main__":
    try:
        write(Path(sys.argv[1]))
    except DataError as error:
        sys.exit(str(error))
