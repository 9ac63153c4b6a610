"""Compressed TFRecord files and tars: the samples, the order and all promises are those of plain
ones; unpacked once a node, within `memory`."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import zlib
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_sets import tar, tfrecord
from events import wait_until
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt.io import index as indexes
from horovod_opt.io import native
from horovod_opt.io.formats import unpacked_file
from horovod_opt.io.index import index_file
from horovod_opt.io.index.verification import verify
from horovod_opt.io.node_reader import reader_process
from horovod_opt.io.unpacked import unpacked_store

torch = pytest.importorskip("torch")
zstandard = pytest.importorskip("zstandard")

SAMPLES, FILES = 60, 3
KINDS = ["gzip", "zlib", "tar.gz", "tar.zst"]


def sample(number: int) -> bytes:
    return number.to_bytes(2, "little") * (50 + number % 7)


def pack(kind: str, data: bytes) -> bytes:
    if kind.endswith("zst"):
        return zstandard.ZstdCompressor(write_checksum=True).compress(data)
    return (zlib if kind == "zlib" else gzip).compress(data)


def unpacked_bytes(path: Path) -> int:
    with unpacked_file.UnpackedFile(str(path)) as file:
        return file.drain()[0]


def write(folder: Path, kind: str, plain: int = 0) -> str:
    """As many samples in each file; the first `plain` files are not compressed."""
    folder.mkdir()
    for file in range(FILES):
        numbers = range(file * SAMPLES // FILES, (file + 1) * SAMPLES // FILES)
        path = folder / (f"{file}.{kind}" if kind.startswith("tar") else f"{file}.tfrecord")
        if kind.startswith("tar"):
            tar(path, [(f"{number:03d}.bin", sample(number)) for number in numbers])
        else:
            tfrecord(path, map(sample, numbers))
        if file >= plain:
            path.write_bytes(pack(kind, path.read_bytes()))
    return str(folder / "*")


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def pattern(tmp_path, kind) -> str:
    return write(tmp_path / "packed", kind)


@pytest.fixture(params=[True, False], ids=["mapped", "copied"])
def cached(request, monkeypatch) -> None:
    """Whether the reader finds what was unpacked in the page cache, as it may or may not."""
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", request.param)


@pytest.mark.parametrize("ranks, workers, plain", [(1, 0, 0), (2, 1, 1), (3, 0, 1), (3, 1, 0)])
def test_samples_and_order_are_those_of_plain_files(tmp_path, kind, cached, ranks, workers, plain):
    packed, unpacked = write(tmp_path / "a", kind, plain), write(tmp_path / "b", kind, FILES)
    options = {"seed": 3, "chunk_samples": 4, "window": 2, "shards": 2}

    def run(open_data, rank):
        result = []
        for pattern in (packed, unpacked):
            with open_data(pattern, **options) as data:
                loader = hio.torch.loader(data, 7, collate=list, workers=workers,
                                          decode=lambda item: (item.number, item.data))
                result.append([batch for _ in range(2) for batch in loader])
                item = hio.torch.Dataset(data)[SAMPLES // FILES + 1]
                assert item == sample(SAMPLES // FILES + 1)
        return result

    taken = []
    for own, _ in succeeded(in_job(ranks, run)):
        taken += [item for batch in own for item in batch]
    assert all(data == sample(number) for number, data in taken)
    assert Counter(number for number, _ in taken) == dict.fromkeys(range(SAMPLES), 2)


def test_a_state_goes_on_on_other_ranks(pattern, cached):
    def run(size, state, stop):
        def on_rank(open_data, rank):
            with open_data(pattern, seed=3, chunk_samples=4) as data:
                if state:
                    data.load_state_dict(json.loads(state))
                loader, taken = hio.torch.loader(data, 5, collate=list, epoch_batches=stop), []
                for batch in loader:
                    taken += batch
                return taken, json.dumps(data.state_dict())
        results = succeeded(in_job(size, on_rank))
        return [item for taken, _ in results for item in taken], results[0][1]

    first, state = run(2, None, 3)
    second, state = run(3, state, 1)
    third, _ = run(1, state, 3)
    assert sorted(first + second + third) == sorted(map(sample, range(SAMPLES)))


@pytest.mark.parametrize("plain", [0, 1])
@pytest.mark.parametrize("checksums", [True, False])
def test_an_index_is_built_by_unpacking_once(tmp_path, kind, monkeypatch, checksums, plain):
    pattern = write(tmp_path / "packed", kind, plain)
    unpacked = Counter()

    def counting(pieces):
        def count(self):
            for piece in pieces(self):
                unpacked[self._path] += len(piece)
                yield piece
        return count

    for name in ("_inflated", "_expanded"):
        monkeypatch.setattr(unpacked_file.UnpackedFile, name,
                            counting(getattr(unpacked_file.UnpackedFile, name)))
    index = indexes.build(pattern, checksums)
    paths = sorted((tmp_path / "packed").glob("[0-9]*"))
    once = dict(unpacked)
    assert once == {str(path): unpacked_bytes(path) for path in paths[plain:]}
    for number in range(SAMPLES) if index.crc is not None else ():
        assert index.crc[number, 0] == native.crc32c(sample(number))


@pytest.mark.parametrize("ranks, node_ranks", [(4, 2), (3, 3)])
def test_each_file_is_unpacked_once_a_node(pattern, monkeypatch, ranks, node_ranks):
    unpacked = []

    class Counting(unpacked_file.UnpackedFile):
        def __init__(self, path):
            unpacked.append(path)
            super().__init__(path)

    indexes.build(pattern)
    monkeypatch.setattr(unpacked_store, "UnpackedFile", Counting)

    def run(open_data, rank):
        with open_data(pattern) as data:
            for options in ({"workers": 1}, {}):
                loader = hio.torch.loader(data, 4, collate=list, epochs=2, **options)
                for _ in range(2):
                    assert all(loader)

    succeeded(in_job(ranks, run, node_ranks))
    assert set(Counter(unpacked).values()) == {ranks // node_ranks}
    assert len(set(unpacked)) == FILES


def test_nothing_stays_open(pattern, tmp_path):
    def held():
        files = set()
        for path in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # that of the folder itself
                link, status = os.readlink(path), path.stat()
                if "io-unpacked" in link or f"{tmp_path}/#" in link:
                    files.add((status.st_dev, status.st_ino))
        return files

    before = held()  # of other tests, whose readers may still be ending
    for options in ({}, {"unpack_in": tmp_path}):
        with hio.open(pattern, **options) as data:
            list(hio.torch.loader(data, 4, collate=list, epochs=1))
            loop = iter(hio.torch.loader(data, 4, collate=list))
            next(loop)
            assert held() - before
            loop.close()
        del data, loop
        wait_until(lambda: not held() - before)


def test_memory_bounds_them_and_a_folder_of_the_disk_takes_more(tmp_path, kind):
    pattern = write(tmp_path / "packed", kind)
    sizes = [unpacked_bytes(path) for path in (tmp_path / "packed").iterdir()]
    with pytest.raises(hio.InputError, match="3 compressed files have .* the largest, .*, which "
                                             "memory=4.00 KiB has no room for; remedy: unpack_in"):
        hio.open(pattern, memory=4096)
    with hio.open(pattern, memory=sum(sizes) + 12000, chunk_samples=1, window=1,
                  shards=1) as data:
        assert len(list(hio.torch.loader(data, 10, collate=list, epochs=1))) == SAMPLES // 10
        assert data.stats()["node_most_live_bytes"] <= 12000
    with hio.open(pattern, memory=12000, chunk_samples=1, window=1, shards=1,
                  unpack_in=tmp_path) as data:
        taken = [item for batch in hio.torch.loader(data, 10, collate=list, epochs=1)
                 for item in batch]
        assert sorted(taken) == sorted(map(sample, range(SAMPLES)))
    assert {path.name for path in tmp_path.iterdir()} == {"packed"}
    with pytest.raises(hio.InputError, match="unpack_in='/proc' .*; remedy"):
        hio.open(pattern, unpack_in="/proc")


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_is_in_memory_is_not_copied_within_it(pattern, ranks):
    def run(open_data, rank):
        with open_data(pattern, seed=1) as data:
            list(hio.torch.loader(data, 4, collate=list, epochs=1))
            return data.stats()

    for stats in succeeded(in_job(ranks, run)):
        assert stats["samples"] and stats["samples_from_storage"] == 0
        assert stats.get("node_bytes_read", 0) == 0  # which the node's first rank alone has


def test_only_files_of_chosen_samples_are_unpacked(tmp_path):
    pattern = write(tmp_path / "packed", "tar.gz")
    size = unpacked_bytes(tmp_path / "packed" / "1.tar.gz")
    with hio.open(pattern, choose=["02?", "03?"], memory=size + 12000, chunk_samples=1, window=1,
                  shards=1) as data:
        taken = [item for batch in hio.torch.loader(data, 4, collate=list, epochs=1)
                 for item in batch]
    assert sorted(taken) == sorted(map(sample, range(20, 40)))


def test_what_they_have_is_kept_for_nobody_else(pattern):
    with pytest.raises(hio.InputError, match="cache=.* for compressed files.*remedy: leave cache="):
        hio.open(pattern, cache="1MiB")


@pytest.mark.parametrize("ranks", [1, 2])
def test_of_a_truncated_file_the_samples_before_that_are_taken(tmp_path, kind, ranks):
    pattern = write(tmp_path / "packed", kind)
    path = sorted((tmp_path / "packed").iterdir())[1]
    contents = np.random.default_rng(0).bytes(200)  # so that there are several blocks
    numbers = range(1000, 1400)
    if kind.startswith("tar"):
        tar(path, [(f"{number}.bin", sample(number) + contents) for number in numbers])
    else:
        tfrecord(path, [sample(number) + np.random.default_rng(number).bytes(200)
                        for number in numbers])
    data = pack(kind, path.read_bytes())
    path.write_bytes(data[:len(data) * 3 // 4])
    results = in_job(ranks, lambda open_data, rank: open_data(pattern))
    assert all("truncated: it ends within" in str(result) and str(path) in str(result)
               for result in results)

    def run(open_data, rank):
        with open_data(pattern, bad="skip") as data:
            return [item for batch in hio.torch.loader(data, 4, collate=list, epochs=1)
                    for item in batch]

    taken = [item for own in succeeded(in_job(ranks, run)) for item in own]
    found = sorted(int.from_bytes(item[:2], "little") for item in taken)
    others = [*range(20), *range(40, SAMPLES)]
    assert [number for number in found if number < 1000] == others
    rest = [number for number in found if number >= 1000]
    assert 0 < len(rest) < len(numbers) and rest == list(numbers)[:len(rest)]


def test_what_is_damaged_after_it_was_indexed_are_damaged_records(pattern, tmp_path, kind):
    index = indexes.build(pattern)
    assert verify(index) == []
    path = Path(index.path(1))
    status, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert verify(index) != []
    with hio.open(pattern) as data, pytest.raises(hio.DataError, match=f"{path.name}, offset"):
        list(hio.torch.loader(data, 4, collate=list))
    with hio.open(pattern, bad="skip", bad_limit=1) as data:
        taken = [item for batch in hio.torch.loader(data, 4, collate=list, epochs=1)
                 if batch for item in batch]
        lost = data.holes[0]
    assert lost and set(lost) <= set(range(20, 40))
    assert sorted(taken) == sorted(sample(i) for i in range(SAMPLES) if i not in lost)


def test_a_forged_index_is_built_anew(pattern, capsys):
    index = indexes.build(pattern)
    size = os.path.getsize(index.path(0))
    forged = np.array([unpacked_file.most_bytes(size) + 1, *index.unpacked[1:]])
    Path(index.place).write_bytes(b"".join(index_file.pieces(replace(index, unpacked=forged))))
    with hio.open(pattern) as data:
        assert data.index.unpacked[0] < forged[0]
    assert "too large once it is unpacked" in capsys.readouterr().err


@pytest.mark.parametrize("command, suffix", [("czf", "tar.gz"), ("--zstd -cf", "tar.zst"),
                                             ("cf", "tar")])
def test_archives_of_gnu_tar(tmp_path, command, suffix):
    for program in ("tar", "zstd") if "zstd" in command else ("tar",):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    (tmp_path / "in").mkdir()
    for number in range(SAMPLES):
        (tmp_path / "in" / f"{number:03d}.bin").write_bytes(sample(number))
        (tmp_path / "in" / f"{number:03d}.txt").write_text(str(number))
    archive = tmp_path / f"a.{suffix}"
    subprocess.run(["tar", *command.split(), archive, "--sort=name", "-C", tmp_path / "in", "."],
                   check=True)
    with hio.open(archive, choose="*00*") as data:
        for batch in hio.torch.loader(data, 3, collate=list, epochs=1):
            for item in batch:
                number = int(item["txt"])
                assert item["bin"] == sample(number) and item["__key__"] == f"./{number:03d}"
        assert len(data) == 10
