"""What bad="skip" leaves out, who knows of it, and what it does not leave out."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from data_sets import files, tfrecord
from thread_ranks import in_job, succeeded
from torch.utils.data import DataLoader

import horovod_opt.io as hio
from horovod_opt.io.node_reader import direct, reader_process, records

RECORDS = [i.to_bytes(2, "little") * 40 for i in range(200)]
FRAME = 16  # bytes around a record


@pytest.fixture
def path(tmp_path) -> Path:
    path = tfrecord(tmp_path / "a.tfrecord", RECORDS)
    hio.open(path).close()
    return path


def damage(path: Path, numbers: list[int]) -> list[int]:
    """Bits have rotted since it was indexed: nobody sees it by the file."""
    status = path.stat()
    with open(path, "r+b") as file:
        for number in numbers:
            file.seek(number * (len(RECORDS[0]) + FRAME) + 12 + 3)
            file.write(b"!")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return numbers


def number(sample: hio.Sample) -> int:
    return int.from_bytes(sample.data[:2], "little")


def by_loader(data: hio.Data, **options) -> list[int]:
    batches = hio.torch.loader(data, 8, decode=number, collate=list, epochs=1, **options)
    return [sample for batch in batches for sample in batch]


def by_dataloader(data: hio.Data, workers: int) -> list[int]:
    batches = DataLoader(hio.torch.Dataset(data, number), num_workers=workers, collate_fn=list,
                         batch_sampler=hio.torch.BatchSampler(data, 8, epochs=1))
    return [sample for batch in batches for sample in batch]


WAYS = {"threads": by_loader, "workers": lambda data: by_loader(data, workers=2),
        "DataLoader": lambda data: by_dataloader(data, 0),
        "DataLoader's workers": lambda data: by_dataloader(data, 2)}


@pytest.mark.parametrize("way", WAYS)
def test_holes_are_known_whoever_finds_them(path, way, capfd):
    bad = damage(path, [3, 77, 78, 199])
    with hio.open(path, seed=1, bad="skip") as data:
        assert sorted(WAYS[way](data)) == [i for i in range(200) if i not in bad]
        assert data.holes == {0: bad}
        state = json.loads(json.dumps(data.state_dict()))
    assert data.holes == {0: bad}  # also of a closed one
    with hio.open(path, seed=1, bad="skip") as data:
        data.load_state_dict(state)
        WAYS[way](data)
        assert data.holes == {0: bad, 1: bad}
    said = [line for line in capfd.readouterr().err.splitlines() if "left out as damaged" in line]
    assert len(said) == 2  # the first one of each run
    assert all(f"{path}, offset " in line and "its checksum is not the one" in line
               for line in said)


def test_holes_of_loaders_that_have_ended(path):
    bad = damage(path, [3, 77])
    with hio.open(path, seed=1, bad="skip") as data:
        for _ in range(6):
            by_loader(data)
        assert data.holes == dict.fromkeys(range(6), bad)
        assert len(data.known_holes._logs) <= 1  # of the last


@pytest.mark.parametrize("ranks, node_ranks", [(2, 2), (3, 2), (2, 1)])
def test_holes_of_all_ranks(path, ranks, node_ranks):
    bad = damage(path, list(range(0, 200, 30)))

    def train(open_data, rank):
        with open_data(path, seed=1, bad="skip") as data:
            by_loader(data)
            data.ranks.allgather(b"all have taken theirs")
            own_node = data.holes[0]
            assert data.gather_holes() == {0: bad}
            by_loader(data)  # another loader
            data.ranks.allgather(b"all have taken theirs")
            return own_node, data.gather_holes(), data.state_dict()["holes"]

    results = succeeded(in_job(ranks, train, node_ranks))
    for own_node, holes, of_state in results:
        assert (own_node == bad) == (node_ranks == ranks)
        assert holes == {0: bad, 1: bad} and of_state == {"0": bad, "1": bad}
    assert sorted({hole for own_node, *_ in results for hole in own_node}) == bad


@pytest.mark.parametrize("way", WAYS)
def test_too_many_holes_end_the_job(path, way):
    damage(path, list(range(100)))
    with hio.open(path, seed=1, bad="skip") as data:
        with pytest.raises(hio.DataError, match=r"\d+ samples of epoch 0 are damaged, on this node,"
                                                r" of which bad_limit=0\.01 lets 10 be left out"):
            WAYS[way](data)
    with hio.open(path, seed=1, bad="skip", bad_limit=0.5) as data:
        assert sorted(WAYS[way](data)) == list(range(100, 200))


def test_too_many_holes_end_the_reading_of_all_ranks(path):
    damage(path, list(range(100)))

    def train(open_data, rank):
        with open_data(path, bad="skip", shuffle=False) as data:
            with pytest.raises(hio.DataError, match=r"\d+ samples of epoch 0 are damaged, on "):
                by_loader(data)
            return True

    assert succeeded(in_job(3, train)) == [True] * 3


@pytest.mark.parametrize("limit", [-0.1, 1.5, "1%", None])
def test_what_is_no_limit(path, limit):
    with pytest.raises(hio.InputError, match="bad_limit=.*remedy: a part of the samples, 0 to 1"):
        hio.open(path, bad_limit=limit)


# What is no damage.


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", False)
    folder = files(tmp_path / "data", {f"{i:03d}": RECORDS[i] for i in range(200)})
    hio.open(folder).close()
    return folder


def remove(folder: Path) -> None:
    for path in folder.glob("0*"):
        path.unlink()


def replace(folder: Path) -> None:
    for path in folder.glob("0*"):
        path.with_name("new").write_bytes(b"another" * 9)
        path.with_name("new").rename(path)


def link_to_nothing(folder: Path) -> None:
    for path in folder.glob("0*"):
        path.unlink()
        path.symlink_to(path)


@pytest.mark.parametrize("bad", ["skip", "raise"])
@pytest.mark.parametrize("spoil, reason", [
    (remove, "No such file or directory; remedy: make the file readable for all ranks"),
    (replace, "another size or time of change than when it was indexed; remedy"),
    (link_to_nothing, "Too many levels of symbolic links; remedy: make the file readable")])
def test_what_cannot_be_read_is_an_error_of_all_ranks(folder, spoil, reason, bad):
    def train(open_data, rank):
        with open_data(folder, bad=bad, memory="1MiB", chunk_samples=8, bad_limit=1.0) as data:
            data.ranks.allgather(b"all have opened it")
            if rank == 0:
                spoil(folder)
            data.ranks.allgather(b"it is spoilt")
            with pytest.raises(hio.DataError, match=reason):
                by_loader(data)
            return data.holes

    assert succeeded(in_job(3, train)) == [{}] * 3


@pytest.mark.parametrize("status", [errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.EACCES,
                                    errno.ESTALE, errno.ENOMEM, records.CHANGED])
def test_only_damage_is_damage(status):
    assert status not in records.DAMAGES
    assert {records.CHECKSUM, records.TRUNCATED, errno.EIO} == set(records.DAMAGES)


def test_a_lack_of_descriptors_says_so(path):
    with hio.open(path) as data:
        assert "Too many open files; remedy: raise ulimit -n" in records.describe(
            data.index, 0, 0, errno.EMFILE)
        assert direct.read_directly(data.index, 0)[1] == [records.GOOD]
