"""Chunks, shards and windows that the user left out."""

from __future__ import annotations

import numpy as np
import pytest
from data_sets import files, tfrecord
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt.io.errors import InputError
from horovod_opt.io.job import room as rooms
from horovod_opt.io.job.room import neighbours
from horovod_opt.io.node_reader.layout import chunk_bytes, estimate_chunk_bytes
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.choice import Choice, DataSize, Given, choose
from horovod_opt.io.order.memory import enough_for_any_epoch
from horovod_opt.io.order.window_size import CHUNK_BYTES
from horovod_opt.io.step_source import StepSource

KB, GIB = 1000, 1 << 30
IMAGENET = (1_281_167, 110 * KB)


def data_of(samples: int, size: int, are_files: bool = False) -> DataSize:
    def chunk_bytes_of(chunk_samples: int) -> np.ndarray:
        chunks = -(-samples // chunk_samples)
        return np.minimum(samples - np.arange(chunks) * chunk_samples, chunk_samples) * size

    return DataSize(samples, samples * size, are_files, chunk_bytes_of)


def held(choice: Choice, size: int) -> int:
    """Bytes in the windows of all shards."""
    order = choice.order
    return min(order.window * order.shards, order.chunks) * order.chunk_samples * size


@pytest.mark.parametrize("samples, size", [(50_000, 3 * KB), (1000, 110 * KB), (7, 100),
                                           (14_000, 110 * KB), (500, 3 << 20)])
@pytest.mark.parametrize("are_files", [True, False])
@pytest.mark.parametrize("nodes", [1, 4])
def test_what_is_small_is_shuffled_whole(samples, size, are_files, nodes):
    choice = choose(data_of(samples, size, are_files), Given(), neighbours(nodes, nodes))
    assert choice.order.has_whole_shards and not choice.note


@pytest.mark.parametrize("samples, size", [IMAGENET, (2_000_000, 3 * KB), (100_000_000, 3 * KB),
                                           (100_000, 1 << 20)])
@pytest.mark.parametrize("are_files", [True, False])
def test_windows_hold_no_more_than_is_said(samples, size, are_files):
    by_nodes = {choose(data_of(samples, size, are_files), Given(), neighbours(32, nodes)).order
                for nodes in (1, 4, 32)}
    assert len(by_nodes) == 1  # the same whatever the nodes are
    order = by_nodes.pop()
    assert 0.8 * 1.5 * GIB < held(Choice(order, ""), size) <= 1.5 * GIB
    sizes = data_of(samples, size).chunk_bytes(order.chunk_samples)
    for batch in (8, 64, 200):
        need = enough_for_any_epoch(order, Batches(order, 32, batch), range(32), sizes)
        assert need <= 1.25 * 1.5 * GIB + 32 * batch * size


@pytest.mark.parametrize("are_files", [True, False])
@pytest.mark.parametrize("nodes, memory", [(1, GIB), (4, GIB), (4, 8 * GIB), (1, 1 << 29),
                                           (2, 5 * GIB), (4, 1 << 28)])
@pytest.mark.parametrize("samples, size", [IMAGENET, (600_000, 3 * KB), (30_000, 110 * KB)])
def test_given_memory_is_used_by_windows(samples, size, nodes, memory, are_files):
    """By windows, and by what changing them takes, which is much where they are of few chunks.
    Readers have enough in any epoch."""
    choice = choose(data_of(samples, size, are_files), Given(), neighbours(8, nodes, memory))
    order = choice.order
    assert not choice.note
    of_chunks = data_of(samples, size).chunk_bytes(order.chunk_samples)
    for batch in (48, 64):
        for node in neighbours(8, nodes).nodes:
            need = enough_for_any_epoch(order, Batches(order, 8, batch), node, of_chunks)
            assert need <= memory
    assert order.has_whole_shards or held(choice, size) > 0.45 * memory * nodes
    if samples * size <= 0.7 * memory * nodes:
        assert order.has_whole_shards


def test_a_small_machine_has_smaller_windows_and_says_so():
    data = data_of(*IMAGENET)
    whole = choose(data, Given(), neighbours(8, 1))
    for limit in (2 * GIB, GIB, 1 << 29):
        choice = choose(data, Given(), neighbours(8, 1)._replace(limit=limit))
        order = choice.order
        assert order.window * order.shards < whole.order.window * whole.order.shards
        assert f"a process may use {limit / GIB:.2f} GiB" in choice.note or limit < GIB
        sizes = data.chunk_bytes(order.chunk_samples)
        assert enough_for_any_epoch(order, Batches(order, 8, 64), range(8), sizes) <= limit / 2
    large = choose(data, Given(), neighbours(8, 1)._replace(limit=64 * GIB))
    assert large == whole and not large.note


def test_what_is_given_stays():
    data = data_of(*IMAGENET)
    small = neighbours(8, 1)._replace(limit=1 << 26)
    order = choose(data, Given(chunk_samples=7, shards=3, window=99), small).order
    assert (order.chunk_samples, order.shards, order.window) == (7, 3, 99)
    assert choose(data, Given(shards=9), small).order.shards == 9
    assert choose(data, Given(chunk_samples=9), small).order.chunk_samples == 9
    with pytest.raises(InputError, match="shards=0"):
        choose(data, Given(shards=0), small)
    order = choose(data, Given(), small, shuffle=False).order
    assert (order.shards, order.window) == (1, 1)


@pytest.mark.parametrize("size, samples", [(110 * KB, 4), (30 * KB, 4), (3 * KB, 22), (100, 655),
                                           (2 << 20, 2), (30 << 20, 1)])
def test_in_a_folder_a_chunk_is_a_few_files(size, samples):
    order = choose(data_of(100_000, size, True), Given(), neighbours(1, 1)).order
    assert order.chunk_samples <= samples and order.chunk_samples * size <= CHUNK_BYTES + size
    assert order.chunk_samples >= 0.75 * samples


def test_a_folder_is_opened_in_small_chunks(tmp_path):
    names = {f"{number % 5}/{number}": bytes(40 * KB) for number in range(200)}
    with hio.open(files(tmp_path / "folder", names), seed=1) as data:
        assert data.order.chunk_samples <= 4
        assert data.order.has_whole_shards


def test_sizes_are_estimated_from_a_few_chunks(tmp_path):
    random = np.random.default_rng(0)
    path = tfrecord(tmp_path / "a.tfrecord",
                    (bytes(int(size)) for size in random.integers(0, 3000, 5000)))
    with hio.open(path, chunk_samples=7) as data:
        exact = chunk_bytes(data.index, 7)
        assert estimate_chunk_bytes(data.index, 7) == pytest.approx(exact, rel=0.3, abs=100)
        assert estimate_chunk_bytes(data.index, 7).sum() == pytest.approx(exact.sum(), rel=0.01)


def test_ranks_agree_though_their_machines_differ(tmp_path, monkeypatch, capfd):
    """The smallest one counts, which one rank of another node has."""
    path = tfrecord(tmp_path / "a.tfrecord", (bytes(3000) for _ in range(2000)))
    limits = iter([1 << 40, 5 << 20, 1 << 40])
    monkeypatch.setattr(rooms.memory_limit, "limit", lambda: next(limits, 1 << 40))

    def on_rank(open_data, rank: int) -> tuple[int, int]:
        with open_data(path, chunk_samples=20) as data:
            return data.order, StepSource(data, 4, None, "spread").steps

    orders = succeeded(in_job(3, on_rank, 2))
    assert len({order for order, _ in orders}) == 1
    assert not orders[0][0].has_whole_shards
    assert capfd.readouterr().err.count("a process may use 5.00 MiB") == 1
