"""Storage that fails under a loader: errors and short reads of pread(2), by a preloaded library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import torch
from data_sets import environment, tfrecord
from events import keep_cached

import horovod_opt.io as hio
from horovod_opt.io import native

ROOT = Path(__file__).parents[4]
RECORDS = [i.to_bytes(4, "little") + bytes([i + 1]) * 3000 for i in range(64)]
FRAME = 16  # bytes around a record


def place(number: int) -> int:
    """Where the data of a record begins."""
    return number * (len(RECORDS[0]) + FRAME) + 12


BAD_BYTE = place(20) + 5
BAD_BLOCK = BAD_BYTE // 4096 * 4096  # of the disk: not single bytes go bad
# By name: a fault (faults.c), and what becomes of damaged records.
CASES = {"error": (f"eio {BAD_BYTE} {BAD_BYTE + 1}", "raise"),
         "error, skipped": (f"eio {BAD_BYTE} {BAD_BYTE + 1}", "skip"),
         "stale": ("stale 0 0", "raise"), "short": ("short 0 0", "raise"), "": ("", "raise")}

READS = """
import json, os, sys
import horovod_opt.io as hio

folder = sys.argv[1]
def number(sample):
    return int.from_bytes(sample.data[:4], "little")
reports = {}
for i, (name, (fault, bad)) in enumerate(json.loads(sys.argv[2]).items()):
    path = f"{folder}/{i}.tfrecord"
    with hio.open(path, bad=bad, shuffle=False) as data:
        with open(os.environ["FAULTS"], "w") as file:  # from now on: the index is built
            file.write(fault and f"{fault} {path}")
        report = reports[name] = {"numbers": [], "path": path}
        try:
            for batch in hio.torch.loader(data, 8, decode=number, epochs=1):
                report["numbers"] += batch.tolist()
        except hio.DataError as error:
            report["error"] = str(error)
        report.update(holes=data.holes.get(0, []), requests=data.stats()["node_requests"])
print(json.dumps(reports))
"""


@pytest.fixture(scope="module")
def read(compiled, tmp_path_factory) -> dict[str, dict]:
    """What a process says, by case, that reads all while a fault is on."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler, cc")
    folder = tmp_path_factory.mktemp("faults")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", folder / "faults.so",
                    Path(__file__).with_name("faults.c"), "-ldl"], check=True)
    paths = [tfrecord(folder / f"{i}.tfrecord", RECORDS) for i in range(len(CASES))]
    with keep_cached(*paths):
        process = subprocess.run(
            [sys.executable, "-c", READS, folder, json.dumps(CASES)], check=True,
            stdout=subprocess.PIPE, text=True, timeout=300,
            env={**os.environ, native.PATH: str(compiled), "PYTHONPATH": str(ROOT),
                 "LD_PRELOAD": str(folder / "faults.so"), "FAULTS": str(folder / "faults")})
    return json.loads(process.stdout)


@pytest.fixture
def data(tmp_path) -> Path:
    return tfrecord(tmp_path / "a.tfrecord", RECORDS)


def test_an_error_of_the_disk_names_the_record(read):
    report = read["error"]
    first = min(i for i in range(64) if place(i) + len(RECORDS[0]) > BAD_BLOCK)
    assert report["numbers"] == list(range(first // 8 * 8))
    assert report["error"].startswith(f"{report['path']}, offset {place(first)}, sample {first}: "
                                      "Input/output error; remedy: ")


def test_an_error_of_the_disk_is_a_hole_where_the_block_is(read):
    report = read["error, skipped"]
    hit = [i for i in range(64)
           if place(i) < BAD_BLOCK + 4096 and place(i) + len(RECORDS[0]) > BAD_BLOCK]
    assert report["holes"] == hit and 20 in hit and len(hit) <= 3
    assert report["numbers"] == [i for i in range(64) if i not in hit]


def test_a_stale_handle_is_opened_again(read):
    """As of NFS after the server was started anew."""
    assert read["stale"]["numbers"] == list(range(64)) and "error" not in read["stale"]
    assert read["stale"]["requests"] > 1


def test_short_reads_and_signals_are_gone_on_with(read):
    assert read["short"]["numbers"] == list(range(64)) and "error" not in read["short"]
    assert read["short"]["requests"] > 64 * 3000 / 777  # so they were short


def test_without_faults_the_same_program_reads_all(read):
    assert read[""]["numbers"] == list(range(64)) and read[""]["requests"] <= 1


# Files that change under a loader. Its memory is too small to read far ahead.

SMALL = {"shuffle": False, "chunk_samples": 8, "memory": 50_000}


def number(sample: hio.Sample) -> int:
    return int.from_bytes(sample.data[:4], "little")


def epoch(loader) -> list[int]:
    return torch.cat(list(loader)).tolist()


def test_a_file_that_is_replaced_while_it_is_read_is_read_to_its_end(data):
    """The reader has it open: what it reads is what was indexed."""
    with hio.open(data, **SMALL) as opened:
        loader = hio.torch.loader(opened, 8, decode=number)
        assert epoch(loader) == list(range(64))
        tfrecord(data.with_name("new"), reversed(RECORDS))
        os.replace(data.with_name("new"), data)
        assert epoch(loader) == list(range(64))


def test_a_file_that_is_replaced_before_it_is_read_is_an_error(data):
    with hio.open(data, shuffle=False) as opened:
        loader = hio.torch.loader(opened, 8, decode=number)
        tfrecord(data.with_name("new"), reversed(RECORDS))
        os.replace(data.with_name("new"), data)
        with pytest.raises(hio.DataError, match="its file has another size or time of change"):
            epoch(loader)


def test_a_file_that_is_written_in_place_is_an_error(data):
    """Though the reader has it open: by its checksum."""
    with hio.open(data, **SMALL) as opened:
        loop = iter(hio.torch.loader(opened, 8, decode=number))
        assert next(loop).tolist() == list(range(8))
        with open(data, "r+b") as file:
            file.seek(place(63) + 100)
            file.write(b"!")
        with pytest.raises(hio.DataError, match="sample 63.*its checksum is not the one"):
            list(loop)


def test_an_lmdb_that_is_written_during_the_job_is_an_error(tmp_path):
    """Its pages are used again: no transaction of a reader keeps them."""
    path = environment(tmp_path / "db", {b"%03d" % i: record for i, record in enumerate(RECORDS)})
    with hio.open(path, **SMALL) as opened:
        loop = iter(hio.torch.loader(opened, 8, decode=number))
        assert next(loop).tolist() == list(range(8))
        for version in range(3):
            environment(path, {b"%03d" % i: bytes([version]) * 3004 for i in range(64)})
        with pytest.raises(hio.DataError, match="its checksum is not the one"):
            list(loop)


@pytest.mark.slow
def test_a_record_over_2_gib(tmp_path):
    """It is sparse: it takes memory, and no disk."""
    path = tmp_path / "data" / "large"
    path.parent.mkdir()
    size = (2 << 30) + 5
    with open(path, "wb") as file:
        file.truncate(size)
        file.seek(size - 1)
        file.write(b"!")
    with hio.open(path.parent, shuffle=False) as opened:
        values = next(iter(hio.torch.loader(opened, 1, epochs=1, decode=lambda sample: (
            len(sample.data), sample.data[-1]), collate=list)))
    assert values[0] == (size, ord("!"))


def test_records_beyond_2_gib_of_a_file(tmp_path):
    path = tmp_path / "data.tar"
    with open(path, "wb") as file:
        for i, (name, size) in enumerate((("0.hole", 3 << 30), ("1.jpg", 10), ("2.jpg", 10))):
            info = tarfile.TarInfo(name if i else "hole")  # without an extension: no sample
            info.size = size
            file.write(info.tobuf(tarfile.GNU_FORMAT))
            start = file.tell()
            file.write(b"" if not i else bytes([i]) * size)
            file.seek(start + -(-size // 512) * 512)
        file.truncate(file.tell() + 1024)
    with hio.open(path, shuffle=False) as opened:
        assert opened.index.offset.min() > 2 << 30
        (batch,) = hio.torch.loader(opened, 2, epochs=1)
    assert list(batch) == [b"\x01" * 10, b"\x02" * 10]


def test_a_record_larger_than_memory_is_refused_with_both_figures(tmp_path):
    path = tmp_path / "data" / "large"
    path.parent.mkdir()
    with open(path, "wb") as file:
        file.truncate(3 << 30)
    (tmp_path / "data" / "small").write_bytes(b"x")
    with hio.open(path.parent, memory="1GiB", checksums=False) as opened:
        with pytest.raises(hio.InputError, match=r"memory=1\.00 GiB is less than the 3\.00 GiB "
                                                 r"that shards=1 and window=\d+ need at once"):
            hio.torch.loader(opened, 1)


def test_records_of_no_bytes(tmp_path):
    path = tfrecord(tmp_path / "a.tfrecord", [b"", b"x", b"", b"", b"yy", b""])
    with hio.open(path, shuffle=False) as opened:
        (batch,) = hio.torch.loader(opened, 6, epochs=1)
    assert list(batch) == [b"", b"x", b"", b"", b"yy", b""]
    path = tfrecord(tmp_path / "b.tfrecord", [b""] * 5)
    with hio.open(path, seed=3) as opened:
        assert [len(batch) for batch in hio.torch.loader(opened, 2, epochs=1)] == [2, 2, 1]
