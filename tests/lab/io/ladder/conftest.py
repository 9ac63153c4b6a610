"""Jobs of the ladder, whose ranks are forks of the test."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import numpy as np
import pytest
from events import MINUTE

from horovod_lab.io.ladder.links import Links
from horovod_lab.io.ladder.place import Place
from horovod_lab.io.ladder.storage_requests import StorageRequests
from horovod_lab.io.strategies import RUNGS

FORK = multiprocessing.get_context("fork")


class Outcome(NamedTuple):
    """By rank: its batches, what it counted, its log int64[3, requests]; or why it ended."""

    batches: list[list[list[bytes]]]
    counts: list[dict[str, float]]
    logs: list[np.ndarray]
    errors: list[str]

    def sum(self, name: str) -> float:
        return sum(counts.get(name, 0) for counts in self.counts)


def fork(ranks: int, action: Callable[[Links], Any]) -> list[Any]:
    """What `action` returns in each rank, or the exception that it raises."""
    def main(folder: str, rank: int, results) -> None:
        try:
            links = Links(Path(folder), rank, ranks, os.getppid())
            result = action(links)
        except Exception as error:
            result = error
        results.put((rank, result))

    with tempfile.TemporaryDirectory() as folder:
        results = FORK.Queue()
        processes = [FORK.Process(target=main, args=(folder, rank, results))
                     for rank in range(ranks)]
        for process in processes:
            process.start()
        try:
            by_rank = dict(results.get(timeout=MINUTE) for _ in processes)
        finally:
            for process in processes:
                process.join(timeout=5)
                process.kill()
    return [by_rank[rank] for rank in range(ranks)]


def run(name: str, folder: Path, ranks: int, nodes: int, batch: int, iterations: int,
        record_bytes: int, **more: Any) -> Outcome:
    """All records that a strategy gives each rank."""
    def action(links: Links) -> tuple:
        place = Place(str(folder), links.rank, ranks, ranks // nodes, batch, iterations,
                      record_bytes, **more)
        requests = StorageRequests()
        strategy = RUNGS[name].strategy(place, links, requests)
        batches = list(strategy.batches())
        strategy.account()
        links.barrier()
        strategy.close()
        return batches, requests.counts(), np.array(requests.log, np.int64)

    results = fork(ranks, action)
    good = [result for result in results if not isinstance(result, Exception)]
    return Outcome(*(list(column) for column in zip(*good)) if good else ([], [], []),
                   errors=[str(result) for result in results if isinstance(result, Exception)])


def write(folder: Path, records: Sequence[bytes], commit: int = 1000) -> Path:
    """A database with these values, in this order."""
    folder.mkdir()
    with lmdb.open(str(folder), map_size=1 << 28) as environment:
        for first in range(0, len(records), commit):
            with environment.begin(write=True) as transaction:
                for number, record in enumerate(records[first:first + commit], first):
                    transaction.put(b"%08d" % number, record, append=True)
    return folder


@pytest.fixture(scope="session")
def ladder():
    """The functions above: conftest.py is nobody's module."""
    class Ladder:
        fork, run, write = staticmethod(fork), staticmethod(run), staticmethod(write)

    return Ladder
