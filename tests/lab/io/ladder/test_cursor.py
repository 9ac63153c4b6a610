"""LMDB's pages and the cursor that goes over them, beside py-lmdb."""

from __future__ import annotations

import ctypes
import mmap
import os
import random

import data_sets
import lmdb
import pytest

from horovod_lab.io.ladder.cursor import Cursor
from horovod_lab.io.ladder.pages import Pages, read_meta
from horovod_opt.io.errors import DataError

SIZES = (0, 1, 48, 200, 2030, 3072, 5000, 100_000)  # in leaf pages and in pages of their own


class Database:
    """A file, a cursor over it, and the pages that it looked at."""

    def __init__(self, path):
        self.meta = read_meta(str(path))
        with open(path, "rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.visits: list[int] = []
        self.pages = Pages(self.bytes, self.meta.page_bytes, self.visits.append)
        self.cursor = Cursor(self.pages, self.meta.root)

    def take(self, count: int) -> list[bytes]:
        return [self.bytes[value.offset:value.offset + value.size]
                for value in self.cursor.take(count)]


@pytest.fixture
def mixture(tmp_path):
    """Records of all sizes, put in no order, by several transactions. Long keys: a deep tree."""
    records = {b"%0300d" % i: os.urandom(SIZES[i % len(SIZES)]) for i in range(2000)}
    keys = list(records)
    random.Random(1).shuffle(keys)
    path = tmp_path / "db"
    with lmdb.open(str(path), map_size=1 << 29) as environment:
        for first in range(0, len(keys), 300):
            with environment.begin(write=True) as transaction:
                for key in keys[first:first + 300]:
                    transaction.put(key, records[key])
    return path / "data.mdb", [records[key] for key in sorted(records)]


def test_every_record_in_the_order_of_the_keys_and_then_the_first_again(mixture):
    path, records = mixture
    database = Database(path)
    assert database.meta.depth > 2 and database.meta.records == 2000
    assert database.take(1999) == records[:1999]
    assert database.take(4) == [records[1999], *records[:3]]


def test_another_cursor_goes_on_where_one_is(mixture):
    path, records = mixture
    first, second = Database(path), Database(path)
    for begin in range(0, 2000, 250):  # ends of leaves and of the file among them
        first.cursor.take(250)
        second.cursor.go_to(first.cursor.state())
        assert second.take(1) == [records[(begin + 250) % 2000]]


def test_to_skip_a_record_is_to_look_at_its_first_page(tmp_path):
    """So a cursor of LMDB reads records of 3 KB that it skips."""
    path = data_sets.environment(tmp_path / "db", {b"%05d" % i: bytes(10_000) for i in range(50)})
    database = Database(path / "data.mdb")
    values = database.cursor.take(50)
    assert {value.page for value in values} <= set(database.visits)
    assert not {value.page + 1 for value in values} & set(database.visits)


def resident(path) -> set[int]:
    """Pages of the file in the page cache."""
    libc = ctypes.CDLL(None)
    size = os.path.getsize(path)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), size) as mapping:
        whole = (ctypes.c_char * size).from_buffer(mapping)
        vector = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        assert libc.mincore(ctypes.byref(whole), ctypes.c_size_t(size), vector) == 0
        pages = {page for page, flags in enumerate(vector) if flags & 1}
        del whole
    return pages


def lock_on_fault(path) -> None:
    """This process's mapping of the file keeps the pages that are looked at: the kernel could take
    back others."""
    line, = (line for line in open("/proc/self/maps") if line.rstrip().endswith(str(path)))
    begin, end = (int(address, 16) for address in line.split()[0].split("-"))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlock2(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), 1):  # MLOCK_ONFAULT
        raise OSError(ctypes.get_errno(), "memory cannot be locked")


def test_lmdb_looks_at_the_same_pages(tmp_path):
    """Without readahead, a page is in the page cache because somebody has looked at it."""
    path = data_sets.environment(tmp_path / "db", {b"%05d" % i: bytes(9000) for i in range(300)})
    file = path / "data.mdb"
    with open(file, "r+b") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if resident(file):
        pytest.skip("a file system that keeps what it should drop")
    with lmdb.open(str(path), readonly=True, lock=False, readahead=False) as environment:
        lock_on_fault(file)
        before = resident(file)  # LMDB reads the meta pages, and the kernel what follows
        with environment.begin() as transaction, transaction.cursor() as cursor:
            cursor.first()
            for _ in range(99):
                cursor.next()
        pages = resident(file) - before
    database = Database(file)
    database.cursor.take(100)
    assert len(pages) > 80 and set(database.visits) - before == pages


@pytest.mark.parametrize("damage, message", [
    (lambda data: data[:4200], "truncated in its meta pages"),
    (lambda data: data[:-4096], r"truncated: \d+ bytes of \d+; remedy: copy"),
    (lambda data: b"\0" * 64 + data[64:], "not an LMDB file; remedy"),
    (lambda data: b"", "not an LMDB file; remedy"),
])
def test_what_is_no_whole_file_is_refused(tmp_path, damage, message):
    path = data_sets.environment(tmp_path / "db", {b"%05d" % i: bytes(3000) for i in range(9)})
    file = path / "data.mdb"
    meta = read_meta(str(file))
    file.write_bytes(damage(file.read_bytes()[:(meta.last + 1) * 4096]))
    with pytest.raises(DataError, match=f"data.mdb: {message}"):
        read_meta(str(file))


def test_an_empty_database_is_refused(tmp_path):
    with lmdb.open(str(tmp_path)):
        pass
    with pytest.raises(DataError, match="it has no records; remedy: write some"):
        read_meta(str(tmp_path / "data.mdb"))


def test_format_1_is_refused(tmp_path):
    path = data_sets.environment(tmp_path / "db", {b"a": b"b"}, lib_version=1)
    with pytest.raises(DataError, match="LMDB's format 1.0, .*remedy: write it with LMDB 0.9"):
        read_meta(str(path / "data.mdb"))


def test_dupsort_is_refused(tmp_path):
    path = data_sets.environment(tmp_path / "db", {b"a": b"b"}) / "data.mdb"
    whole = bytearray(path.read_bytes())
    for meta in (16, 4096 + 16):
        whole[meta + 24 + 48 + 4] |= 0x04
    path.write_bytes(whole)
    with pytest.raises(DataError, match="it is made with DUPSORT"):
        read_meta(str(path))


def test_a_sub_database_is_refused(tmp_path):
    with lmdb.open(str(tmp_path), max_dbs=1) as environment:
        environment.open_db(b"inside")
    with pytest.raises(DataError, match="holds another database"):
        Database(tmp_path / "data.mdb").cursor.take(1)


def test_a_damaged_page_is_an_error_and_no_loop(mixture):
    path, _ = mixture
    whole = bytearray(path.read_bytes())
    root = read_meta(str(path)).root
    whole[root * 4096:root * 4096 + 4096] = bytes(4096)
    path.write_bytes(whole)
    with pytest.raises(DataError, match=f"page {root} is no page of the tree"):
        Database(path).cursor.take(1)


def test_whatever_is_damaged_nothing_hangs_and_nothing_else_is_raised(tmp_path, ladder):
    """A byte here and there, in the pages of the tree."""
    records = [os.urandom((100, 3000)[i % 2]) for i in range(400)]
    path = ladder.write(tmp_path / "db", records, 50) / "data.mdb"
    whole = bytes(Database(path).bytes)
    database = Database(path)
    database.cursor.take(400)
    tree = sorted({page for page in database.visits if whole[page * 4096 + 10] & 3})
    dice, refusals = random.Random(1), 0
    for _ in range(400):
        damage = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            within = dice.choice((dice.randrange(80), dice.randrange(4096)))
            damage[dice.choice(tree) * 4096 + within] = dice.randrange(256)
        try:
            Cursor(Pages(damage, 4096, lambda page: None), database.meta.root).take(500)
        except DataError as error:
            assert "remedy: copy or make the file again" in str(error)
            refusals += 1
    assert 50 < refusals < 400
