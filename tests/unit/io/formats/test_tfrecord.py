"""The scan of TFRecord files."""

from __future__ import annotations

import os
import struct

import data_sets
import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horovod_opt.io.errors import DataError
from horovod_opt.io.formats import read_buffer, tfrecord

# Written by TensorFlow 2.21: the records b"horovod" and b"".
BY_TENSORFLOW = bytes.fromhex("0700000000000000bbd79f11686f726f766f64c39e16c4"
                              "000000000000000029039807d8ea82a2")


def scan(path, contents=True, reports=None):
    return tfrecord.scan(str(path), os.path.getsize(path), contents,
                         (lambda count: None) if reports is None else reports.append)


def test_a_file_of_tensorflow(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(BY_TENSORFLOW)
    result = scan(path)
    assert result.parts == ("",) and result.keys is None and result.damages == []
    assert result.offset.tolist() == [[12], [35]] and result.size.tolist() == [[7], [0]]
    assert result.crc.tolist() == [[google_crc32c.value(b"horovod")], [google_crc32c.value(b"")]]
    assert BY_TENSORFLOW == data_sets.framed(b"horovod") + data_sets.framed(b"")


@given(st.integers(0, 0xFFFFFFFF))
def test_masking_is_undone(crc):
    assert tfrecord.unmask(tfrecord.mask(crc)) == crc
    assert tfrecord.mask(crc) == data_sets.masked(crc)


@pytest.mark.parametrize("contents", [True, False])
@settings(max_examples=60)
@given(records=st.lists(st.binary(max_size=300), max_size=12), block=st.integers(12, 200))
def test_records_are_found_whatever_the_block(tmp_path_factory, contents, records, block):
    path = data_sets.tfrecord(tmp_path_factory.mktemp("t") / "a", records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfrecord, "BLOCK", block)
        patch.setattr(tfrecord, "STRUCTURE_BLOCK", block)
        reports = []
        result = scan(path, contents, reports)
    whole = path.read_bytes()
    places = zip(result.offset[:, 0], result.size[:, 0])
    assert [whole[offset:offset + size] for offset, size in places] == records
    assert result.crc[:, 0].tolist() == [google_crc32c.value(record) for record in records]
    assert sum(reports) == len(whole)


def test_every_byte_is_read_once(tmp_path, monkeypatch):
    path = data_sets.tfrecord(tmp_path / "a", [os.urandom(100) for _ in range(200)])
    monkeypatch.setattr(tfrecord, "BLOCK", 1000)
    read, pread = [], os.pread
    monkeypatch.setattr(
        read_buffer.os, "pread", lambda *args: read.append(pread(*args)) or read[-1])
    scan(path)
    assert b"".join(read) == path.read_bytes()


def test_structure_alone_does_not_read_long_records(tmp_path, monkeypatch):
    path = data_sets.tfrecord(tmp_path / "a", [bytes(1 << 20)] * 4)
    read, pread = [], os.pread
    monkeypatch.setattr(
        read_buffer.os, "pread", lambda *args: read.append(pread(*args)) or read[-1])
    scan(path, contents=False)
    assert sum(map(len, read)) < 1 << 20


@pytest.mark.parametrize("contents", [True, False])
def test_truncated_anywhere(tmp_path, contents):
    whole = data_sets.framed(b"first") + data_sets.framed(b"second")
    path = tmp_path / "a"
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        if length == len(data_sets.framed(b"first")):
            assert len(scan(path, contents).offset) == 1
            continue
        with pytest.raises(DataError, match=rf"a: truncated: record [01], at byte \d+, would end "
                                            rf"at byte \d+, but the file at {length}; remedy"):
            scan(path, contents)
        if length < len(data_sets.framed(b"first")):
            with pytest.raises(DataError, match="no sample is before that; remedy") as raised:
                tfrecord.scan(str(path), length, contents, lambda count: None, keep_truncated=True)
            assert "bad='skip'" not in str(raised.value)


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    path = data_sets.tfrecord(tmp_path / "a", [b"x" * 100])
    size = path.stat().st_size
    os.truncate(path, 50)
    with pytest.raises(DataError, match="a: truncated: the file ends at byte 50"):
        tfrecord.scan(str(path), size, True, lambda count: None)


def test_a_wrong_checksum_of_data_is_reported_and_kept_for_the_reader(tmp_path):
    whole = bytearray(data_sets.framed(b"first") + data_sets.framed(b"second"))
    whole[-5] ^= 1
    path = tmp_path / "a"
    path.write_bytes(whole)
    result = scan(path)
    assert result.crc[1, 0] == google_crc32c.value(b"second")
    assert len(result.damages) == 1 and f"{path}: record 1, byte 21: " in result.damages[0]
    assert scan(path, contents=False).damages == []


@pytest.mark.parametrize("contents", [True, False])
@pytest.mark.parametrize("at", [21, 28, 29, 32])
def test_a_wrong_checksum_of_a_length_ends_it(tmp_path, at, contents):
    whole = bytearray(data_sets.framed(b"first") + data_sets.framed(b"second"))
    whole[at] ^= 1
    path = tmp_path / "a"
    path.write_bytes(whole)
    with pytest.raises(DataError, match="a: record 1, at byte 21: the checksum of its length"):
        scan(path, contents)


def test_a_forged_length_is_no_allocation(tmp_path):
    length = struct.pack("<Q", (1 << 64) - 1)
    path = tmp_path / "a"
    path.write_bytes(length + struct.pack("<I", data_sets.masked(google_crc32c.value(length)))
                     + bytes(100))
    with pytest.raises(DataError, match="truncated: record 0"):
        scan(path)


def test_a_record_over_2_gib(tmp_path):
    size = (2 << 30) + 5
    length = struct.pack("<Q", size)
    path = tmp_path / "a"
    with open(path, "wb") as file:
        file.write(length + struct.pack("<I", data_sets.masked(google_crc32c.value(length))))
        file.truncate(12 + size)
        file.seek(12 + size)
        file.write(struct.pack("<I", data_sets.masked(7)) + data_sets.framed(b"next"))
    result = scan(path, contents=False)
    assert result.size.tolist() == [[size], [4]] and result.offset.tolist() == [[12], [size + 28]]
    assert result.size.dtype == result.offset.dtype == np.int64 and result.crc[0, 0] == 7


def test_no_records(tmp_path):
    path = data_sets.tfrecord(tmp_path / "a", [])
    assert scan(path).offset.shape == (0, 1)
