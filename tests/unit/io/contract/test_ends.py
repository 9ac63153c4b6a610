"""What nobody has any more, or has closed, frees all that it had: threads, descriptors, mappings,
processes."""

from __future__ import annotations

import gc
import os
import threading
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from data_sets import tfrecord
from events import thread_names, wait_until
from thread_ranks import in_job, succeeded

torch = pytest.importorskip("torch")

import horovod_opt.io as hio
from horovod_opt.io import totals

COUNT, LOADERS = 60, 12


@pytest.fixture
def pattern(tmp_path) -> str:
    """In more files than descriptors may be kept of."""
    for file in range(20):
        tfrecord(tmp_path / f"{file:02}.tfrecord",
                 [i.to_bytes(4, "little") + bytes(100) for i in range(3 * file, 3 * file + 3)])
    return str(tmp_path / "*.tfrecord")


def number(sample: hio.Sample) -> int:
    return int.from_bytes(sample.data[:4], "little")


class Held(NamedTuple):
    """By this process, of what loaders have."""

    threads: int
    descriptors: int
    mappings: int
    children: int
    totals: int

    @classmethod
    def now(cls) -> Held:
        names = [*(thread.name for thread in threading.enumerate()), *thread_names()]
        maps = Path("/proc/self/maps").read_text().splitlines()
        return cls(sum(name.startswith("hio-") for name in names),
                   len(os.listdir("/proc/self/fd")),
                   sum("tfrecord" in line or "memfd:" in line for line in maps),
                   len(psutil.Process().children()), len(totals._stats))


def comes_back_to(before: Held) -> None:
    def is_back() -> bool:
        gc.collect()
        return all(now <= then for now, then in zip(Held.now(), before))

    assert wait_until(is_back), f"{before} before, {Held.now()} now"


@pytest.fixture
def before(pattern) -> Held:
    """After one that has loaded what stays: libraries, the index, PyTorch's threads."""
    gc.collect()
    others = Held.now().threads  # of tests before this one, such as TensorFlow ends at its leisure
    with hio.open(pattern) as data:
        for options in ({"decode": number}, {"workers": 1, "context": "fork"}):
            list(hio.torch.loader(data, 8, **options))
    gc.collect()
    assert wait_until(lambda: Held.now().threads <= others)
    return Held.now()


LOOPS = {
    "plain": lambda data: list(hio.torch.loader(data, 8)),
    "decoded": lambda data: list(hio.torch.loader(data, 8, decode=number)),
    "left early": lambda data: next(iter(hio.torch.loader(data, 8, decode=number))),
    "never begun": lambda data: hio.torch.loader(data, 8),
    "workers": lambda data: list(hio.torch.loader(data, 8, decode=number, workers=1,
                                                  context="fork")),
    "workers left early": lambda data: next(iter(hio.torch.loader(data, 8, workers=1,
                                                                  context="fork"))),
    "a data set": lambda data: list(torch.utils.data.DataLoader(
        hio.torch.Dataset(data, number), batch_sampler=hio.torch.BatchSampler(data, 8)))}


@pytest.mark.parametrize("loop", LOOPS)
def test_loaders_made_anew_for_each_epoch_take_no_more(pattern, before, loop):
    data = hio.open(pattern, seed=1)
    for _ in range(2 if "workers" in loop else LOADERS):
        LOOPS[loop](data)
    comes_back_to(before)  # though the data is open


def test_data_opened_anew_takes_no_more(pattern, before):
    for _ in range(LOADERS):
        data = hio.open(pattern, seed=1)
        loader = hio.torch.loader(data, 8, decode=number)
        assert len(torch.cat(list(loader))) == COUNT
    del data, loader
    comes_back_to(before)


@pytest.mark.parametrize("workers", [0, 1])
def test_after_its_last_epoch_a_loader_has_nothing(pattern, before, workers):
    with hio.open(pattern, seed=1) as data:
        loader = hio.torch.loader(data, 8, decode=number, epochs=2, workers=workers,
                                  context="fork" if workers else None)
        next(iter(loader))  # a loop left early is none of them
        for _ in range(2):
            assert len(torch.cat(list(loader))) == COUNT
        comes_back_to(before)
        assert data.stats()["samples"] >= 2 * COUNT
        with pytest.raises(hio.InputError, match="epochs=2, and they are over; remedy"):
            list(loader)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", ["loader", "data"])
def test_closed_is_ended(pattern, before, kind, workers):
    data = hio.open(pattern, seed=1)
    loader = hio.torch.loader(data, 8, decode=number, workers=workers,
                              context="fork" if workers else None)
    with closing(loader if kind == "loader" else data):
        batches = iter(loader)
        next(batches)
        del batches
    comes_back_to(before)
    loader.close()
    with pytest.raises(hio.DataError, match="closed; remedy"):
        list(loader)


def test_what_one_rank_drops_others_still_read(pattern):
    """Though it is the node's reader."""
    is_dropped = threading.Event()

    def run(open_data, rank: int) -> list[int]:
        loader = hio.torch.loader(open_data(pattern, seed=1, chunk_samples=4), 5, decode=number)
        taken = torch.cat(list(loader)).tolist() if rank == 0 else []
        if rank == 0:
            del loader
            gc.collect()
            is_dropped.set()
            return taken
        batches = iter(loader)
        taken = next(batches).tolist()
        is_dropped.wait()
        return taken + torch.cat(list(batches)).tolist()

    assert sorted(sum(succeeded(in_job(2, run)), [])) == list(range(COUNT))


def test_a_loader_has_at_most_64_descriptors(tmp_path):
    """Of 300 files, each read more than once."""
    for i in range(300):
        (tmp_path / f"{i}.bin").write_bytes(bytes(40000))
    data = hio.open(tmp_path, seed=1, chunk_samples=2)
    before = Held.now().descriptors
    loader = hio.torch.loader(data, 10)
    for _ in range(2):
        for _ in loader:
            assert Held.now().descriptors - before <= 64


def resident() -> int:
    """Bytes of this process's memory that are pages of files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssFile"))


@pytest.mark.parametrize("size", [3000, 100_000])
def test_what_was_read_is_no_memory_of_the_process(tmp_path, size):
    """Out of the page cache, where records are read that other processes have read, too."""
    records, total = 64 * 1000 * 1000 // size, 64 * 1000 * 1000
    tfrecord(tmp_path / "a.tfrecord", [i.to_bytes(4, "little") + bytes(size - 4)
                                       for i in range(records)])
    with hio.open(tmp_path / "a.tfrecord", seed=1, shards=1, window=1) as data:
        loader = hio.torch.loader(data, 16)
        batches = iter(loader)
        next(batches)
        before = most = resident()
        for step, _ in enumerate(batches):
            if step % 20 == 0:
                most = max(most, resident())
        assert data.stats()["samples_from_storage"] == 0
        assert most - before < total / 2
        assert resident() - before < total / 8
