"""hio.open of a pack: the bytes and labels of the folder, on any ranks; and packs that lie."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace

import data_sets
import google_crc32c
import numpy as np
import pytest
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt import cli
from horovod_opt.io.decoder import decode_samples, read_step
from horovod_opt.io.errors import Damaged, DataError
from horovod_opt.io.formats import compression
from horovod_opt.io.index import column_file, pack_index
from horovod_opt.io.pack.comparison import compare
from horovod_opt.io.pack.listing import list_source
from horovod_opt.io.pack.packer import pack
from horovod_opt.io.pack.plan import Options
from horovod_opt.io.step_source import StepSource

LEVELS = (None, 3)


@pytest.fixture
def source(tmp_path):
    draw = random.Random(1)
    return data_sets.files(tmp_path / "source", {
        f"{name}/{i}.{part}": (draw.randbytes(draw.choice([0, 50, 900]))
                               + b"0" * draw.choice([0, 9, 5000]))
        for name in "abc" for i in range(15) for part in ("jpg", "txt")[:1 + (name == "b")]})


def packed(source, out, level=None, size=16384):
    return pack(list_source([str(source)], None, 0), out, Options(size, 0, level)).index


def samples_of(data, batch_size=4, decode=None):
    """What this rank gets, in order, with the keys."""
    with data:
        source = StepSource(data, batch_size, None, "spread")
        return [sample for step in source.samples(source.begin()) for sample in decode_samples(
            data, read_step(data, source.member, step, decode is None).samples, decode)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("ranks, node_ranks", [(1, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("shuffle", [True, False])
def test_ranks_get_the_folders_files_once(source, tmp_path, level, ranks, node_ranks, shuffle):
    packed(source, tmp_path / "out", level)
    expected = sorted((path.read_bytes(), "abc".index(path.parent.name))
                      for path in source.rglob("*.*"))
    for decode in (None, lambda sample: (sample.data, sample.label)):
        got = succeeded(in_job(ranks, lambda open, rank: samples_of(
            open(tmp_path / "out", shuffle=shuffle), decode=decode), node_ranks))
        assert sorted(sample for rank in got for sample in rank) == expected


@pytest.mark.parametrize("level", LEVELS)
def test_a_damaged_file_is_an_error_that_names_it(source, tmp_path, level):
    index = packed(source, tmp_path / "out", level)
    row = int(np.argmax(index.size))
    path = tmp_path / "out" / index.names[index.file[row]]
    whole = bytearray(path.read_bytes())
    whole[index.offset[row] + 5] ^= 1
    path.write_bytes(whole)
    with pytest.raises(DataError, match="its checksum is not the one that was indexed") as error:
        samples_of(hio.open(tmp_path / "out"))
    assert index.paths[row] in str(error.value)
    lines = compare(list_source([str(source)], None, 0), tmp_path / "out")
    assert len(lines) == 1 and index.paths[row] in lines[0] and "in the index, " in lines[0]
    kept = samples_of(hio.open(tmp_path / "out", bad="skip"))
    assert len(kept) == 59


@pytest.mark.parametrize("spoil, text", [
    (lambda path: path.unlink(), "1 are missing or cut, as part-000001.tar: No such file"),
    (lambda path: os.truncate(path, 512), "part-000001.tar: size .* when packed, now 512")])
def test_a_tar_that_is_missing_or_cut(source, tmp_path, spoil, text):
    packed(source, tmp_path / "out")
    spoil(tmp_path / "out" / "part-000001.tar")
    with pytest.raises(DataError, match=f"{text}.*remedy: bring them here"):
        hio.open(tmp_path / "out")
    lines = compare(list_source([str(source)], None, 0), tmp_path / "out")
    assert len(lines) == 1 and "part-000001.tar: " in lines[0]


def test_a_copied_pack_is_opened(source, tmp_path):
    """Times are others then."""
    packed(source, tmp_path / "out")
    for path in (tmp_path / "out").iterdir():
        os.utime(path, (1, 1))
    assert len(samples_of(hio.open(tmp_path / "out"))) == 60


def test_without_its_index_it_is_a_folder_of_tars(source, tmp_path):
    packed(source, tmp_path / "out")
    (tmp_path / "out" / "pack.hoi").write_bytes(b"torn")
    with pytest.raises(DataError, match="pack.hoi: this index of a pack cannot be used|made with"):
        hio.open(tmp_path / "out")
    (tmp_path / "out" / "pack.hoi").unlink()
    with pytest.raises(DataError, match=r"remedy: the pattern .*out/\*.tar"):
        hio.open(tmp_path / "out")


def test_originals_that_have_changed(source, tmp_path, capsys):
    packed(source, tmp_path / "out", 3)
    os.utime(source / "a" / "0.jpg", (1, 1))  # the same contents: no difference
    for name in ("a/1.jpg", "b/1.txt"):
        data = bytearray((source / name).read_bytes() or b"")
        (source / name).write_bytes(bytes(byte ^ 1 for byte in data))
    (source / "a" / "2.jpg").write_bytes(b"longer" * 2000)
    (source / "a" / "new.jpg").write_bytes(b"")
    (source / "c" / "3.jpg").unlink()
    assert cli.main(["pack", str(source), str(tmp_path / "out"), "--verify"]) == 1
    out = capsys.readouterr().out
    lines = sorted(line.split(" ")[0] for line in out.splitlines())
    changed = {name for name in ("a/1.jpg", "b/1.txt") if (source / name).stat().st_size}
    assert lines == sorted([f"{name}:" for name in {*changed, "a/2.jpg", "a/new.jpg", "c/3.jpg"}]
                           + [str(60)])


def test_headers_between_the_files_are_compared(source, tmp_path):
    index = packed(source, tmp_path / "out")
    path = tmp_path / "out" / index.names[0]
    whole = bytearray(path.read_bytes())
    whole[0] ^= 1
    path.write_bytes(whole)
    line, = compare(list_source([str(source)], None, 0), tmp_path / "out")
    assert "between its files something is not as it was packed" in line


def forged(index, **changes):
    """A pack's index with right checksums, whatever is in it."""
    return b"".join(replace(index, **changes).pieces())


def twice(index):
    """A row, and the place of another one in the same tar."""
    first, second = np.flatnonzero((index.size > 0) & (index.file == 0))[:2].tolist()
    return (first, index.offset[second]) if index.size[first] <= index.size[second] else (
        second, index.offset[first])


def changed(array, row, value):
    copy = np.array(array)
    copy[row] = value
    return copy


@pytest.mark.parametrize("change, text", [
    (lambda i: {"offset": changed(i.offset, 3, 1 << 40)}, "a record outside of its file"),
    (lambda i: {"offset": changed(i.offset, *twice(i))}, "overlap"),
    (lambda i: {"size": changed(i.size, 3, -1)}, "negative|outside"),
    (lambda i: {"file": changed(i.file, -1, 99)}, "out of order or do not exist"),
    (lambda i: {"label": changed(i.label, 0, 7)}, "a label that is none of 3 classes"),
    (lambda i: {"label": changed(i.label, 0, -1)}, "a sample that is none"),
    (lambda i: {"names": ["../" + i.names[0], *i.names[1:]]}, "a file named|not sorted"),
    (lambda i: {"names": ["a/" + i.names[0], *i.names[1:]]}, "a tar in another folder"),
    (lambda i: {"samples": 61}, "61 samples of 60 files"),
    (lambda i: {"raw_size": changed(i.raw_size, 0, 1 << 50)}, "too large once it is expanded"),
    (lambda i: {"raw_size": changed(i.raw_size, 0, -1)}, "too large|negative"),
    (lambda i: {"plan": 5}, "a plan that is none")])
def test_a_forged_index(source, tmp_path, change, text):
    index = packed(source, tmp_path / "out")
    (tmp_path / "out" / "pack.hoi").write_bytes(forged(index, **change(index)))
    with pytest.raises(Damaged, match=f"pack.hoi: this index of a pack cannot be used: .*({text})"):
        pack_index.read(tmp_path / "out" / "pack.hoi")
    with pytest.raises(DataError, match="remedy"):
        hio.open(tmp_path / "out")


def test_any_flipped_byte_of_the_index(source, tmp_path):
    path = tmp_path / "out" / "pack.hoi"
    packed(source, tmp_path / "out")
    whole, draw = path.read_bytes(), random.Random(2)
    harmless = 0
    for place in [*range(40), *(draw.randrange(len(whole)) for _ in range(200))]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1:])
        try:
            pack_index.read(path)
            harmless += 1
        except Damaged:
            pass
    assert harmless < 120  # in the gaps between columns


def test_a_header_that_promises_too_much(source, tmp_path):
    packed(source, tmp_path / "out")
    path = tmp_path / "out" / "pack.hoi"
    whole = path.read_bytes()
    length = column_file.PREAMBLE.unpack_from(whole)[3]
    header = json.loads(whole[24:24 + length])
    header["rows"] = header["samples"] = 1 << 40
    text = json.dumps(header).encode()
    text += b" " * (-(24 + len(text)) % 64)
    path.write_bytes(column_file.PREAMBLE.pack(pack_index.MAGIC, 1, google_crc32c.value(text),
                                               len(text)) + text + whole[24 + length:])
    with pytest.raises(Damaged, match="described by"):
        pack_index.read(path)


def test_a_bomb(tmp_path):
    """A frame that would be larger than the index says, or another one than it says."""
    import zstandard

    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 26))
    assert len(bomb) < 1 << 14
    for raw_size in (1 << 20, (1 << 26) - 1):
        with pytest.raises(DataError, match="x: cannot be expanded to .* another size"):
            compression.expand(bomb, raw_size, "x")
    # Without a size in the frame nothing says how much memory it takes.
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 20))
    with pytest.raises(DataError, match="cannot be expanded"):
        compression.expand(frame, 1 << 20, "x")
    with pytest.raises(DataError, match="cannot be expanded"):
        compression.expand(b"no frame", 8000, "x")
    good = zstandard.ZstdCompressor().compress(b"good" * 99)
    with pytest.raises(DataError, match="cannot be expanded"):
        compression.expand(good + b"more", 396, "x")
    assert compression.expand(good, 396, "x") == b"good" * 99
    source = data_sets.files(tmp_path / "s", {"a.bin": bytes(1 << 22), "b.bin": b"ab" * 5000})
    index = packed(source, tmp_path / "out", 3)
    sizes = dict(zip(index.paths.strings(), index.size.tolist()))
    assert sizes["a.bin"] == 1 << 22  # would expand more than 1,000 fold: stored as it is
    assert sizes["b.bin"] < 100


def test_no_zstandard(source, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DataError, match=r"--zstd needs zstandard.*pip install 'horovod-opt\[zstd"):
        packed(source, tmp_path / "out", 3)
    assert not (tmp_path / "out").exists()


def test_no_zstandard_to_read_with(source, tmp_path, monkeypatch):
    import sys

    packed(source, tmp_path / "out", 3)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DataError, match="out: a compressed pack needs zstandard"):
        hio.open(tmp_path / "out")
