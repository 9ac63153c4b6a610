"""The file of an index: what is written is read, and nothing else is."""

from __future__ import annotations

import json
import os
import tracemalloc

import data_sets
import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horovod_opt.io import index
from horovod_opt.io.errors import Damaged, DataError, Missing
from horovod_opt.io.index import column_file, index_file, validation
from horovod_opt.io.index.lookup import read


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """TFRecord, tar, LMDB and a folder, each with an index beside it."""
    root = tmp_path_factory.mktemp("data")
    for i in range(3):
        data_sets.tfrecord(root / f"{i}.tfrecord", [b"x" * size for size in (5, 0, 7 + i)])
    data_sets.tar(root / "a.tar", [(f"{i}.{part}", part.encode() * i) for i in range(5)
                                   for part in ("jpg", "cls")])
    data_sets.environment(root / "db", {b"k%d" % i: b"v" * i for i in range(5)})
    data_sets.files(root / "folder", {"b/1": b"one", "a/2": b"", "a/3": b"three"})
    for name, pattern in PATTERNS.items():
        index.build(root / pattern, place=root / f"{name}.hoi")
    return root


PATTERNS = {"tfrecord": "*.tfrecord", "tar": "a.tar", "lmdb": "db", "folder": "folder"}
IN_FOLDER = {"tfrecord": "", "tar": "", "lmdb": "db", "folder": "folder"}


def sealed(header: dict | list | bytes, body: bytes, version: int = index_file.VERSION) -> bytes:
    """A file with right checksums, whatever is in it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-(24 + len(text)) % 64)
    return column_file.PREAMBLE.pack(index_file.MAGIC, version, google_crc32c.value(text),
                                    len(text)) + text + body


def split(path) -> tuple[dict, bytes]:
    whole = path.read_bytes()
    length = column_file.PREAMBLE.unpack_from(whole)[3]
    return json.loads(whole[24:24 + length]), whole[24 + length:]


def with_column(forged: tuple[dict, bytes], name: str, values, dtype="<i8"):
    """Header and body with another column, whose checksum is right."""
    header, body = forged
    block = np.array(values, dtype).tobytes()
    body += bytes(-len(body) % 64)
    header["columns"][name] = {"kind": "raw", "offset": len(body), "length": len(block),
                               "crc": google_crc32c.value(block)}
    return header, body + block


def opened(root, name, whole: bytes):
    path = root / "forged.hoi"
    path.write_bytes(whole)
    return read(path, str(root / IN_FOLDER[name]))


@pytest.mark.parametrize("name", PATTERNS)
def test_columns(root, name):
    result = read(root / f"{name}.hoi", str(root / IN_FOLDER[name]))
    shape = (result.samples, len(result.parts))
    for column, dtype in (("file", np.int32), ("offset", np.int64), ("size", np.int64),
                          ("crc", np.uint32)):
        values = getattr(result, column)
        assert values.shape == shape and values.dtype == dtype
        with pytest.raises(ValueError, match="read-only"):
            values[0, 0] = 1
    for i in range(result.samples):
        for part in range(len(result.parts)):
            with open(result.path(result.file[i, part]), "rb") as file:
                file.seek(result.offset[i, part])
                assert google_crc32c.value(file.read(result.size[i, part])) == result.crc[i, part]
    assert len(result.digest) == 16 and result.place == str(root / f"{name}.hoi")


def test_what_each_format_has(root):
    def open_index(name):
        return read(root / f"{name}.hoi", str(root / IN_FOLDER[name]))

    tfrecord, tar, lmdb, folder = map(open_index, PATTERNS)
    assert tfrecord.size[:, 0].tolist() == [5, 0, 7, 5, 0, 8, 5, 0, 9]
    assert tfrecord.file[:, 0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [file.name for file in tfrecord.files] == ["0.tfrecord", "1.tfrecord", "2.tfrecord"]
    assert (tfrecord.key(3), tfrecord.label, tfrecord.classes) == ("", None, ())
    assert (tar.parts, tar.samples, tar.key(4)) == (("jpg", "cls"), 5, "4")
    assert tar.size.tolist() == [[3 * i, 3 * i] for i in range(5)]
    assert (lmdb.key(2), lmdb.transactions) == ("k2", (1,))
    assert (folder.classes, folder.label.tolist()) == (("a", "b"), [0, 0, 1])
    assert [folder.key(i) for i in range(3)] == ["a/2", "a/3", "b/1"]
    for key in (-1, 3):
        with pytest.raises(IndexError, match=f"sample {key} of 3"):
            folder.key(key)


def test_no_file(tmp_path):
    with pytest.raises(Missing, match="horovod-opt io index"):
        read(tmp_path / "none.hoi", str(tmp_path))


def test_a_newer_version(root):
    with pytest.raises(Damaged, match="version 2, but this horovod-opt knows 1; remedy: .*rebuild"):
        opened(root, "tfrecord", sealed(*split(root / "tfrecord.hoi"), version=2))


@pytest.mark.parametrize("name", PATTERNS)
def test_damaged_bytes_are_found(root, name):
    whole = (root / f"{name}.hoi").read_bytes()
    good = read(root / f"{name}.hoi", str(root / IN_FOLDER[name]))
    for at in range(0, len(whole), 3):
        torn = bytearray(whole)
        torn[at] ^= 0x10
        try:
            result = opened(root, name, bytes(torn))
        except Damaged as error:
            assert "remedy: horovod-opt io index --rebuild" in str(error)
        else:  # a byte between two columns
            assert result.digest == good.digest and np.array_equal(result.offset, good.offset)
            assert np.array_equal(result.size, good.size) and np.array_equal(result.crc, good.crc)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_torn_file_is_found(root, name):
    whole = (root / f"{name}.hoi").read_bytes()
    for length in range(0, len(whole) - 64, 13):
        with pytest.raises(Damaged):
            opened(root, name, whole[:length])


@pytest.mark.parametrize(("name", "column", "values", "reason"), [
    ("tfrecord", "offset", [12, 33, 14, 12, 33, 49, 12, 33, 49], "records that overlap"),
    ("tfrecord", "offset", [-1, 33, 49, 12, 33, 49, 12, 33, 49], "a negative offset or size"),
    ("tfrecord", "offset", [1 << 62] * 9, "a record outside of its file"),
    ("tfrecord", "size", [-1, 0, 7, 5, 0, 8, 5, 0, 9], "a negative offset or size"),
    ("tfrecord", "size", [5, 0, (1 << 63) - 1, 5, 0, 8, 5, 0, 9], "a record outside of its file"),
    ("tfrecord", "size", [5, 0, 7, 5, 0, 8, 5, 0], "64 bytes for 9 rows"),
    ("tfrecord", "file_sizes", [-1, 1, 1], "a file of negative size"),
    ("tfrecord", "name_ends", [10, 9, 30], "names of files that end outside"),
    ("tfrecord", "name_ends", [10, 20, 31], "names of files that end outside"),
    ("tfrecord", "name_ends", [10, 10, 30], "a file without a name"),
    ("tfrecord", "name_ends", [30, 31, 1 << 62], "names of files that end outside"),
    ("lmdb", "key_ends", [2, 4, 6, 8, 99], "keys that end outside of their bytes"),
    ("lmdb", "key_ends", [2, -4, 6, 8, 10], "keys that end outside of their bytes"),
])
def test_forged_columns(root, name, column, values, reason):
    with pytest.raises(Damaged, match=reason):
        opened(root, name, sealed(*with_column(split(root / f"{name}.hoi"), column, values)))


@pytest.mark.parametrize(("column", "values", "reason"), [
    ("file", [0, 0, 0, 1, 1, 1, 2, 2, 3], "files of samples that are out of order"),
    ("file", [-1, 0, 0, 1, 1, 1, 2, 2, 2], "files of samples that are out of order"),
    ("file", [0, 0, 1, 0, 1, 1, 2, 2, 2], "files of samples that are out of order"),
    ("file", [0, 0, 0, 0, 1, 1, 2, 2, 2], "outside|overlap|digest"),
])
def test_forged_files_of_samples(root, column, values, reason):
    with pytest.raises(Damaged, match=reason):
        opened(root, "tfrecord",
               sealed(*with_column(split(root / "tfrecord.hoi"), column, values, "<i4")))


@pytest.mark.parametrize("labels", [[0, 0, 2], [-1, 0, 1]])
def test_forged_labels(root, labels):
    with pytest.raises(Damaged, match="a label that is none of 2 classes"):
        opened(root, "folder",
               sealed(*with_column(split(root / "folder.hoi"), "label", labels, "<i4")))


@pytest.mark.parametrize(("names", "reason"), [
    ([b"/etc/passwd", b"a/3", b"b/1"], "a file named '/etc/passwd'"),
    ([b"../../x", b"a/3", b"b/1"], r"a file named '\.\./\.\./x'"),
    ([b"a/..", b"a/3", b"b/1"], r"a file named 'a/\.\.'"),
    ([b"a/2\0", b"a/3", b"b/1"], "a file named"),
    ([b"a/3", b"a/2", b"b/1"], "names of files that are not sorted"),
    ([b"a/2", b"a/2", b"b/1"], "names of files that are not sorted"),
    ([b"a/2", b"a/\xff", b"b/1"], "utf-8"),
])
def test_forged_names(root, names, reason):
    forged = with_column(split(root / "folder.hoi"), "names", list(b"".join(names)), "u1")
    forged = with_column(forged, "name_ends", np.cumsum([len(name) for name in names]))
    with pytest.raises(Damaged, match=reason):
        opened(root, "folder", sealed(*forged))


@pytest.mark.parametrize(("change", "reason"), [
    ({"samples": 1 << 40}, "samples in 3 files, described by"),
    ({"files": 1 << 40}, "samples in 1099511627776 files, described by"),
    ({"samples": -1}, "-1, which is no count"),
    ({"samples": 9.0}, "9.0, which is no count"),
    ({"samples": True}, "True, which is no count"),
    ({"samples": 10**40}, "which is no count"),
    ({"samples": 8}, "column (offset|file)"),
    ({"format": "zip"}, "format 'zip', which is none of"),
    ({"format": []}, r"format \[\], which is none of"),
    ({"format": "tar"}, "keys that do not belong"),
    ({"format": "folder"}, "folder of 3 files|labels"),
    ({"parts": []}, r"parts \(\)"),
    ({"parts": ["a", "a"]}, "parts"),
    ({"parts": ["jpg"]}, "parts"),
    ({"parts": "x"}, "'x', which are no names"),
    ({"classes": ["a"]}, "do not belong together"),
    ({"classes": None}, "None, which are no names"),
    ({"transactions": [1]}, "1 transactions of 3 files"),
    ({"transactions": 1}, "cannot be used"),
    ({"digest": "00" * 16}, "a digest that is not that of the files"),
    ({"digest": "00"}, "a digest of 1 bytes"),
    ({"digest": 0}, "cannot be used"),
    ({"columns": []}, "its header is none"),
    ({"columns": {}}, "its header lacks 'names'"),
    ({"columns": {"names": 3}}, "cannot be used"),
    ({"columns": {"evil": {}}}, r"unknown columns \['evil'\]"),
])
def test_forged_headers(root, change, reason):
    header, body = split(root / "tfrecord.hoi")
    with pytest.raises(Damaged, match=reason):
        opened(root, "tfrecord", sealed({**header, **change}, body))


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000, b"nul",
                                  b'{"columns": 1' + b"0" * 10_000 + b"}"])
def test_headers_that_are_none(root, text):
    with pytest.raises(Damaged, match="remedy: horovod-opt io index --rebuild"):
        opened(root, "tfrecord", sealed(text, b""))


@pytest.mark.parametrize(("field", "value"), [
    ("offset", 1), ("offset", 1 << 61), ("length", 1 << 61), ("length", 0), ("kind", "constant"),
    ("kind", "runs"), ("offset", -64), ("crc", 0), ("offset", None)])
def test_forged_places_of_columns(root, field, value):
    for column in ("names", "name_ends", "file_sizes", "offset", "size", "crc"):
        header, body = split(root / "tfrecord.hoi")
        header["columns"][column][field] = value
        if column == "names" and field == "kind":
            continue  # a text may be stored in any way
        with pytest.raises(Damaged):
            opened(root, "tfrecord", sealed(header, body))


JSON = st.recursive(st.none() | st.booleans() | st.integers(-10, 1 << 70) | st.floats()
                    | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=5)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(PATTERNS)))
def test_no_forgery_crashes_or_takes_memory(root, data, name):
    header, body = split(root / f"{name}.hoi")
    columns = header["columns"]
    for _ in range(data.draw(st.integers(1, 4))):
        target = data.draw(st.sampled_from(["header", "column", "body"]))
        if target == "header":
            header[data.draw(st.sampled_from(sorted(header)))] = data.draw(JSON)
            if header["columns"] is not columns:
                break
        elif target == "column":
            column = columns[data.draw(st.sampled_from(sorted(columns)))]
            field = data.draw(st.sampled_from(["kind", "offset", "length"]))
            column[field] = data.draw(
                st.sampled_from(["raw", "runs", "constant"]) if field == "kind"
                else st.integers(0, len(body) // 64).map(lambda n: n * 64) | st.integers())
        else:
            at = data.draw(st.integers(0, len(body)))
            body = body[:at] + data.draw(st.binary(max_size=16)) + body[at + 16:]
    if header["columns"] is columns:
        for column in columns.values():  # the checksums of a forger are right
            try:
                column["crc"] = google_crc32c.value(
                    body[column["offset"]:column["offset"] + column["length"]])
            except (TypeError, OverflowError):
                pass
    whole = sealed(header, body)
    tracemalloc.start()
    try:
        result = opened(root, name, whole)
    except DataError as error:
        assert "forged.hoi" in str(error) and "remedy" in str(error)
    else:
        assert (result.offset >= 0).all() and (result.size >= 0).all()
        ends = result.offset + result.size
        assert (ends <= result.files.sizes[result.file]).all()
        for i in range(result.samples):
            assert isinstance(result.key(i), str) and os.path.exists(result.path(result.file[i, 0]))
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 4_000_000


@pytest.mark.parametrize("at_once", [1, 2, 1 << 20])
def test_records_in_any_order_may_not_overlap(root, monkeypatch, at_once):
    """LMDB's keys can be in another order than its values."""
    monkeypatch.setattr(validation, "AT_ONCE", at_once)
    good = read(root / "lmdb.hoi", str(root / "db"))
    offsets, sizes = good.offset[:, 0].copy(), good.size[:, 0].copy()
    turned = with_column(split(root / "lmdb.hoi"), "size", sizes[::-1])
    turned = with_column(turned, "offset", offsets[::-1])
    assert opened(root, "lmdb", sealed(*turned)).offset[0, 0] == offsets[-1]
    offsets[1] = offsets[4]
    with pytest.raises(Damaged, match="records that overlap"):
        opened(root, "lmdb", sealed(*with_column(split(root / "lmdb.hoi"), "offset", offsets)))
