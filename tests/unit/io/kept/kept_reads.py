"""Jobs of threads that read records which nodes keep, and what they count."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

from events import MINUTE
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt.io.decoder import read_step
from horovod_opt.io.step_source import StepSource

SIZE, SAMPLES, FRAME = 3000, 1200, 16
WHOLE = SAMPLES * (SIZE + FRAME)
ORDER = {"seed": 5, "chunk_samples": 20, "shards": 4, "window": 3}


def take_epoch(data, source) -> list[list[int]]:
    """Samples of each step, as their bytes say."""
    steps = []
    for step in source.samples(source.begin()):
        records = read_step(data, source.member, step, True).samples.plain()
        assert [int.from_bytes(record[:4], "little") for record in records] == (
            step.samples.tolist())
        assert all(record == record[:4] * (SIZE // 4) for record in records)
        steps.append(step.samples.tolist())
        data.advance(step.info.epoch, step.info.end)
    return steps


def read(pattern: str, nodes: int, local: int, epochs: int = 3, loaders: bool = False,
         between=lambda data, rank, epoch: None, state: dict | None = None, batch: int = 10,
         **options):
    """Samples of each step of each rank, and what each node counted when all were through.
    `loaders`: each epoch has one of its own. `between` is called before each, by all ranks."""
    through = threading.Barrier(nodes * local)

    def on_rank(open_data, rank: int):
        with open_data(pattern, **{**ORDER, **options}) as data:
            if state is not None:
                data.load_state_dict(state)
            steps, source = [], None
            for epoch in range(epochs):
                if source is None or loaders:
                    source = StepSource(data, batch, None, "spread",
                                        None if loaders else epochs)
                through.wait(MINUTE)
                between(data, rank, epoch)
                through.wait(MINUTE)
                steps += take_epoch(data, source)
                through.wait(MINUTE)
                stats = data.stats()
                if loaders:
                    source.close()
            through.wait(MINUTE)
            return steps, stats

    steps, stats = zip(*succeeded(in_job(nodes * local, on_rank, local)))
    return list(steps), list(stats[::local])


def total(stats: list[dict], name: str) -> int:
    return sum(node[name] for node in stats)


def flip(pattern: str, number: int) -> None:
    """A byte of a record."""
    path = Path(pattern).parent / f"{number // 400}.tfrecord"
    status = path.stat()
    with open(path, "r+b") as file:
        file.seek(number % 400 * (SIZE + FRAME) + 12 + 100)
        file.write(b"\xff")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def spoil(pattern: str) -> list[int]:
    """A byte of five records, behind the index's back; the others."""
    hio.open(pattern).close()  # has the index
    bad = random.Random(3).sample(range(SAMPLES), 5)
    for number in bad:
        flip(pattern, number)
    return sorted(set(range(SAMPLES)) - set(bad))


def take_numbers(pattern: str, nodes: int, **options) -> tuple[list[list[int]], list[dict]]:
    """What each rank, of a node each, takes in two epochs, and what the nodes counted."""
    through = threading.Barrier(nodes)

    def on_rank(open_data, rank: int):
        with open_data(pattern, **options) as data:
            source, taken = StepSource(data, 10, None, "spread", 2), []
            for _ in range(2):
                for step in source.samples(source.begin()):
                    samples = read_step(data, source.member, step, True).samples
                    taken += [int.from_bytes(record[:4], "little") for record in samples.plain()]
                    data.advance(step.info.epoch, step.info.end)
            through.wait(MINUTE)
            return taken, data.stats()

    taken, stats = zip(*succeeded(in_job(nodes, on_rank, 1)))
    return list(taken), list(stats)
