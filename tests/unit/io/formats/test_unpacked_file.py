"""Contents of compressed files, whatever pieces they were compressed in and wherever they end."""

from __future__ import annotations

import gzip
import os
import re
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horovod_opt.io.errors import DataError, TruncatedFile
from horovod_opt.io.formats import is_packed, unpacked_file
from horovod_opt.io.formats.unpacked_file import UnpackedFile

zstandard = pytest.importorskip("zstandard")

SKIPPED = struct.pack("<II", 0x184D2A53, 5) + b"notes"  # a frame without contents


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def measure(path: str) -> tuple[int, str]:
    with UnpackedFile(path) as file:
        return file.drain()


PACK = {"gzip": gzip.compress, "zlib": zlib.compress, "zstd": zstd}


@st.composite
def packed(draw: st.DrawFn) -> tuple[str, list[bytes], bytes]:
    """A kind, contents of its members, and the file."""
    kind = draw(st.sampled_from(sorted(PACK)))
    blocks = st.builds(lambda seed, length, times: (os.urandom(0) + bytes(
        (seed * i * i + i) % 251 for i in range(length))) * times,
        st.integers(0, 9), st.integers(0, 700), st.sampled_from([1, 1, 300]))
    members = draw(st.lists(blocks, min_size=1, max_size=1 if kind == "zlib" else 4))
    between = {"gzip": [b"", bytes(512)], "zstd": [b"", SKIPPED], "zlib": [b"", bytes(7)]}[kind]
    data = b"".join(PACK[kind](member) + draw(st.sampled_from(between)) for member in members)
    return kind, members, data


@given(packed(), st.lists(st.tuples(st.integers(0, 300_000), st.integers(0, 2000)), max_size=5))
def test_members_are_one_after_the_other(tmp_path_factory, case, reads):
    kind, members, data = case
    path = tmp_path_factory.mktemp("f") / "a"
    path.write_bytes(data)
    contents = b"".join(members)
    assert is_packed(str(path)) and measure(str(path)) == (len(contents), "")
    with UnpackedFile(str(path)) as file:
        assert file.kind == kind
        for begin, size in reads:  # also backward
            file.seek(begin)
            assert file.read(size) == contents[begin:begin + size]
            assert file.tell() == min(begin + size, len(contents)) or begin > len(contents)


@given(packed(), st.floats(0, 1, exclude_max=True))
def test_a_file_that_ends_too_early_has_what_is_before_that(tmp_path_factory, case, part):
    _, members, data = case
    path = tmp_path_factory.mktemp("f") / "a"
    path.write_bytes(data[:max(int(len(data) * part), 12)])
    contents = b"".join(members)
    try:
        size, why = measure(str(path))
    except DataError as error:
        assert "not compressed" in str(error)  # where too little is left to tell
        return
    if why:
        assert why.startswith(f"{path}: ") and f"behind byte {size} " in why and "remedy" in why
    else:  # cut between members
        assert size in {len(b"".join(members[:count])) for count in range(len(members) + 1)}
    with UnpackedFile(str(path)) as file:
        assert size == 0 or file.read(size + 1) == contents[:size]
        for _ in range(2 if why else 0):
            with pytest.raises(TruncatedFile, match=re.escape(why)):
                file.read(1)


@pytest.mark.parametrize("kind", PACK)
def test_a_flipped_bit_is_found(tmp_path, kind):
    data = bytearray(PACK[kind](os.urandom(50_000)))
    data[30_000] ^= 4
    path = tmp_path / "a"
    path.write_bytes(data)
    size, why = measure(str(path))
    assert size <= 50_000 and f"its {kind} data is damaged" in why


@pytest.mark.parametrize("kind, bits", [("gzip", 31), ("zlib", 15)])
@pytest.mark.parametrize("good", [1, 1000, 70_000, 3_000_000])
def test_a_damaged_file_has_what_is_before_the_damage(tmp_path, kind, bits, good):
    contents = bytes(i * i // 7 % 251 for i in range(good))
    packer = zlib.compressobj(wbits=bits)
    whole = packer.compress(contents) + packer.flush(zlib.Z_FULL_FLUSH)
    path = tmp_path / "a"
    path.write_bytes(whole + b"\x07" + bytes(1000))  # a kind of block that there is not
    size, why = measure(str(path))
    assert size == good and f"its {kind} data is damaged" in why and f"behind byte {good} " in why
    with UnpackedFile(str(path)) as file:
        assert file.read(good) == contents


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_garbage_behind_is_left_out_and_said(tmp_path, kind, capsys):
    path = tmp_path / "a"
    path.write_bytes(PACK[kind](b"x" * 1000) + bytes(20) + b"garbage")
    assert measure(str(path)) == (1000, "")
    assert f"a: what follows its {kind} data is left out" in capsys.readouterr().err


@pytest.mark.parametrize("kind", PACK)
def test_bombs_are_refused(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(unpacked_file, "FEW", 1 << 20)
    path = tmp_path / "a"
    path.write_bytes(PACK[kind](bytes(64 << 20)))
    with pytest.raises(DataError, match="a: its .* unpacks to more than 500 times its"):
        measure(str(path))


def test_a_window_that_takes_too_much_memory_is_refused(tmp_path):
    parameters = zstandard.ZstdCompressionParameters(window_log=28)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path = tmp_path / "a"
    path.write_bytes(writer.compress(bytes(100)) + writer.flush())
    size, why = measure(str(path))
    assert size == 0 and "memory" in why


@pytest.mark.parametrize("head, kind", [(b"BZh9", "bzip2"), (b"\xfd7zXZ\0", "xz"),
                                        (b"\x04\x22\x4d\x18", "lz4")])
def test_other_kinds_are_refused(tmp_path, head, kind):
    path = tmp_path / "a"
    path.write_bytes(head + bytes(100))
    with pytest.raises(DataError, match=f"a: compressed by {kind}, .*remedy: decompress"):
        is_packed(str(path))
