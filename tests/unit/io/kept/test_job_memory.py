"""`cache=`: what the nodes of a job have read once comes from their memory, in the order of before."""

from __future__ import annotations

import threading

import pytest
from data_sets import tfrecord
from events import MINUTE
from thread_ranks import in_job, succeeded

from horovod_opt.io.decoder import read_step
from horovod_opt.io.node_reader import reader_process
from horovod_opt.io.step_source import StepSource

SIZE, SAMPLES, FRAME = 3000, 1200, 16
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


def read(pattern: str, nodes: int, local: int, epochs: int = 3, **options):
    """Samples of each step of each rank, and what each node counted when all were through."""
    through = threading.Barrier(nodes * local)

    def on_rank(open_data, rank: int):
        with open_data(pattern, **{"seed": 5, "chunk_samples": 20, "shards": 4, "window": 3,
                                   **options}) as data:
            source = StepSource(data, 10, None, "spread", epochs)
            steps = []
            for _ in range(epochs):
                for step in source.samples(source.begin()):
                    records = read_step(data, source.member, step, True).samples.plain()
                    assert [int.from_bytes(record[:4], "little") for record in records] == (
                        step.samples.tolist())
                    steps.append(step.samples.tolist())
                    data.advance(step.info.epoch, step.info.end)
            through.wait(MINUTE)
            stats = data.stats()
            through.wait(MINUTE)
            return steps, stats

    steps, stats = zip(*succeeded(in_job(nodes * local, on_rank, local)))
    return list(steps), list(stats[::local])


@pytest.mark.parametrize("nodes, local", [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)])
def test_storage_is_read_once_and_the_order_is_that_of_before(pattern, nodes, local):
    without, before = read(pattern, nodes, local)
    kept, stats = read(pattern, nodes, local, cache=2 * WHOLE)
    assert kept == without
    assert sum(node["node_bytes_read"] for node in before) > 2.9 * SAMPLES * SIZE
    assert sum(node["node_bytes_read"] for node in stats) <= WHOLE
    assert SAMPLES * SIZE <= sum(node["kept_bytes"] for node in stats) <= WHOLE
    assert sum(node["fallback_bytes"] for node in stats) == 0
    assert sum(node["peer_bytes"] for node in stats) == sum(
        node["served_bytes"] for node in stats)
    assert (sum(node["peer_bytes"] for node in stats) > 0) == (nodes > 1)
