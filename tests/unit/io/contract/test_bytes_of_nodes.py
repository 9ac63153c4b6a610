"""Which bytes the nodes of a job read: those that their ranks take, and few others."""

from __future__ import annotations

import threading
from glob import glob

import pytest
from data_sets import tfrecord
from events import MINUTE, keep_cached
from thread_ranks import in_job, succeeded

from horovod_opt.io.decoder import read_step
from horovod_opt.io.node_reader import reader_process
from horovod_opt.io.node_reader.layout import ALONG
from horovod_opt.io.step_source import StepSource

SIZE, SAMPLES, FRAME = 3000, 1500, 16
WHOLE = SAMPLES * (SIZE + FRAME)


@pytest.fixture
def pattern(tmp_path, monkeypatch) -> str:
    """Records in three files, that are read though they are in the page cache."""
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", False)
    per_file = SAMPLES // 3
    for file in range(3):
        tfrecord(tmp_path / f"{file}.tfrecord", (
            number.to_bytes(4, "little") * (SIZE // 4)
            for number in range(file * per_file, (file + 1) * per_file)))
    return str(tmp_path / "*.tfrecord")


def read(pattern: str, nodes: int, local: int, state: dict | None = None, epochs: int = 1,
         options: dict | None = None, **batch) -> tuple[list[list[list[int]]], list[dict]]:
    """Samples of each step of each rank, and what each node read when all were through."""
    through = threading.Barrier(nodes * local)

    def on_rank(open_data, rank: int):
        with open_data(pattern, **{"shuffle": False, **(options or {})}) as data:
            if state is not None:
                data.load_state_dict({**data.state_dict(), **state})
            source = StepSource(data, **{"batch_size": None, "global_batch_size": None,
                                         "last": "spread", "epochs": epochs, **batch})
            steps = []
            for _ in range(epochs):
                for step in source.samples(source.begin()):
                    records = read_step(data, source.member, step, True).samples.plain()
                    assert [int.from_bytes(record[:4], "little") for record in records] == (
                        step.samples.tolist())
                    steps.append(step.samples.tolist())
                    data.advance(step.info.epoch, step.info.end)
            through.wait(MINUTE)
            return steps, data.stats()

    steps, stats = zip(*succeeded(in_job(nodes * local, on_rank, local)))
    return list(steps), list(stats[::local])


def in_order(steps: list[list[list[int]]]) -> list[int]:
    return [number for step in zip(*steps) for share in step for number in share]


@pytest.mark.parametrize("local", [1, 2])
@pytest.mark.parametrize("nodes", [1, 2, 4])
@pytest.mark.parametrize("batch", [{"batch_size": 32}, {"global_batch_size": 250},
                                   {"batch_size": 200}])
def test_without_shuffling_a_node_reads_what_its_ranks_take(pattern, nodes, local, batch):
    steps, stats = read(pattern, nodes, local, epochs=2, **batch)
    assert in_order(steps) == 2 * list(range(SAMPLES))
    assert sum(node["node_bytes_read"] for node in stats) <= 2 * WHOLE
    for node, counted in enumerate(stats):
        of_node = steps[node * local:(node + 1) * local]
        samples = sum(map(len, in_order_of(of_node)))
        assert samples * SIZE <= counted["node_bytes_read"] <= samples * (SIZE + FRAME)
        # A run of each step, of which each file and each border of a chunk makes two.
        assert counted["node_requests"] <= 3 * len(of_node[0])


def in_order_of(ranks: list[list[list[int]]]) -> list[list[int]]:
    return [share for step in zip(*ranks) for share in step]


@pytest.mark.parametrize("local", [1, 2])
def test_what_is_left_of_an_epoch_is_read_alike(pattern, local):
    """From a place that no chunk begins with."""
    steps, stats = read(pattern, 4, local, state={"position": 777}, batch_size=32)
    assert in_order(steps) == list(range(777, SAMPLES))
    most = (SAMPLES - 777) * (SIZE + FRAME)
    assert most - FRAME * SAMPLES <= sum(node["node_bytes_read"] for node in stats) <= most


def test_what_lies_between_small_runs_is_read_along(pattern):
    """A node takes 4 records of each 8: a request costs more than the others."""
    assert 4 * (SIZE + FRAME) + FRAME <= ALONG
    steps, stats = read(pattern, 2, 2, batch_size=2, options={"chunk_samples": 250})
    assert in_order(steps) == list(range(SAMPLES))
    for node in stats:
        assert node["node_requests"] == node["node_chunks"] == 6


def test_the_batches_do_not_depend_on_what_is_read(pattern):
    alone = in_order(read(pattern, 1, 1, batch_size=128)[0])
    for nodes, local in ((2, 1), (2, 2), (4, 1)):
        ranks = nodes * local
        assert in_order(read(pattern, nodes, local, batch_size=128 // ranks)[0]) == alone


def test_what_is_left_in_the_page_cache_counts_alike(pattern, monkeypatch):
    """What tmp_path is on can tell."""
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", True)
    with keep_cached(*glob(pattern)):
        steps, stats = read(pattern, 2, 1, state={"position": 777}, batch_size=32)
    for of_rank, counted in zip(steps, stats):
        samples = sum(map(len, of_rank))
        assert samples * SIZE <= counted["node_cached_bytes"] <= samples * (SIZE + FRAME)
        assert counted["node_bytes_read"] == 0


@pytest.mark.parametrize("last", ["spread", "drop"])
def test_of_chunks_that_nodes_share_each_reads_its_part(tmp_path, monkeypatch, last):
    """Shuffled, with three shards for two nodes. A record is more than what is read along."""
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", False)
    size, samples = ALONG + 4, 95
    path = tfrecord(tmp_path / "a.tfrecord", (number.to_bytes(4, "little") * (size // 4)
                                              for number in range(samples)))
    options = {"shuffle": True, "seed": 3, "chunk_samples": 8, "shards": 3, "window": 2}
    steps, stats = read(str(path), 2, 1, batch_size=7, last=last, options=options)
    order = in_order(steps)
    assert len(set(order)) == len(order) == (samples if last == "spread" else samples // 14 * 14)
    assert sum(node["node_chunks"] for node in stats) > 12
    for of_rank, counted in zip(steps, stats):
        node_samples = sum(map(len, of_rank))
        assert node_samples * size <= counted["node_bytes_read"] <= node_samples * (size + FRAME)
