"""Where records are, computed from how the database was made; and what is noticed where it was made
in another way."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import lmdb
import pytest

from horovod_lab.io.ladder import provenance
from horovod_lab.io.ladder.pages import read_meta
from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import lmdb_file


@pytest.mark.parametrize("count, size, commit", [
    (5000, 3072, 1000),     # a page of its own each
    (300, 3072, 1),         # pages that a transaction left are used by the next but one
    (2000, 3072, 156),      # transactions that end with a leaf
    (777, 3072, 13),
    (1200, 10_000, 333),    # three pages
    (1000, 30, 7),          # in leaves that many transactions copy
    (3000, 500, 1000),      # three levels
    (9000, 1200, 900),
    (1000, 100, 1000),      # one transaction
    (1, 100, 1),
])
def test_every_record_is_where_it_is_computed(tmp_path, ladder, count, size, commit):
    folder = ladder.write(tmp_path / "db", [bytes(size)] * count, commit)
    path = str(folder / "data.mdb")
    scan, _ = lmdb_file.scan(path)
    collection = provenance.collect(path)
    # As many transactions of as many records may be made in several ways that are laid out alike.
    assert collection.transactions == -(-count // commit)
    layout = provenance.check(path, collection, read_meta(path))
    assert layout.offset.tolist() == scan.offset[:, 0].tolist()
    assert (layout.size, collection.key_bytes, collection.meta_pages) == (size, 8, 2)


def test_it_is_small_and_lies_beside_the_database(tmp_path, ladder):
    folder = ladder.write(tmp_path / "db", [bytes(3000)] * 500, 100)
    module = "horovod_lab.io.ladder.provenance"
    subprocess.run([sys.executable, "-m", module, str(folder)], check=True)
    assert (folder / "provenance.json").stat().st_size < 300
    numbers = provenance.read(folder)
    assert (numbers.commit_records, numbers.leaf_records, numbers.order) == (100, 156, "appended")


def put(folder, records, **options):
    with lmdb.open(str(folder), map_size=1 << 28) as environment:
        with environment.begin(write=True) as transaction:
            for key, value in records:
                transaction.put(key, value, **options)


def write_shuffled(folder):
    keys = [b"%08d" % i for i in range(2000)]
    random.Random(1).shuffle(keys)
    put(folder, [(key, bytes(3000)) for key in keys])


def write_several_sizes(folder):
    put(folder, [(b"%08d" % i, bytes(3000 + i % 2)) for i in range(300)], append=True)


def change_later(folder):
    put(folder, [(b"%08d" % i, bytes(3000)) for i in range(2000)], append=True)
    put(folder, [(b"%08d" % 7, b"?" * 3000)])


def write_unequal_transactions(folder):
    for first, end in ((0, 100), (100, 1000), (1000, 1200)):
        put(folder, [(b"%08d" % i, bytes(3000)) for i in range(first, end)], append=True)


@pytest.mark.parametrize("make, why", [
    (write_shuffled,
     "its 2000 records of 1 transactions are not where equal transactions put them"),
    (write_several_sizes, "its records have 3000 to 3001 bytes"),
    (change_later, "its 2000 records of 2 transactions are not where"),
    (write_unequal_transactions, "its 1200 records of 3 transactions are not where"),
])
def test_what_was_made_in_another_way_is_refused(tmp_path, make, why):
    make(tmp_path)
    with pytest.raises(DataError, match=f"not written as strategy prov assumes: {why}.*remedy"):
        provenance.write(tmp_path)
    assert not (tmp_path / "provenance.json").exists()


@pytest.mark.parametrize("change, name", [
    (lambda folder: put(folder, [(b"99999999", bytes(3000))], append=True), "records 501, but 500"),
    (lambda folder: put(folder, [(b"%08d" % 7, b"?" * 3000)]), "transaction 6, but 5"),
])
def test_a_file_that_was_changed_since_is_refused(tmp_path, ladder, change, name):
    folder = ladder.write(tmp_path / "db", [bytes(3000)] * 500, 100)
    path = str(folder / "data.mdb")
    provenance.write(folder)
    change(folder)
    with pytest.raises(DataError, match=f"{name} by its provenance.*remedy: collect"):
        provenance.check(path, provenance.read(folder), read_meta(path))


@pytest.mark.parametrize("text", ["", "[1]", "{}", json.dumps({"records": 1})])
def test_a_file_that_is_no_provenance_is_refused(tmp_path, text):
    (tmp_path / "provenance.json").write_text(text)
    with pytest.raises(DataError, match="not a provenance file; remedy: python -m .*provenance"):
        provenance.read(tmp_path)


def test_without_provenance_it_says_how_to_collect_it(tmp_path):
    with pytest.raises(DataError, match=f"No such file.*provenance {tmp_path}"):
        provenance.read(tmp_path)


def test_an_order_that_is_not_computed(tmp_path, ladder):
    folder = ladder.write(tmp_path / "db", [os.urandom(3000)] * 10)
    provenance.write(folder)
    numbers = json.loads((folder / "provenance.json").read_text())
    (folder / "provenance.json").write_text(json.dumps({**numbers, "order": "random"}))
    with pytest.raises(DataError, match="order 'random' cannot be computed; remedy: write"):
        provenance.layout(provenance.read(folder))
