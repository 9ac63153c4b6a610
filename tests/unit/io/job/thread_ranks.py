"""Ranks that are threads of a test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from events import MINUTE

import horovod_opt.io as hio
from horovod_opt.io.job.communication import Communication


def on_ranks(size: int, function: Callable[[Communication], Any]) -> list[Any]:
    """What `function` returns or raises on each rank, by rank."""
    barrier = threading.Barrier(size)
    gathered: list[bytes] = [b""] * size
    results: list[Any] = [None] * size

    def communication(rank: int) -> Communication:
        def allgather(data: bytes) -> list[bytes]:
            gathered[rank] = data
            barrier.wait(MINUTE)
            all_ranks = list(gathered)
            barrier.wait(MINUTE)
            return all_ranks

        return Communication(rank, size, allgather)

    def run(rank: int) -> None:
        try:
            results[rank] = function(communication(rank))
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def in_job(size: int, function: Callable[[Callable, int], Any], node_ranks: int = 0) -> list[Any]:
    """What `function(open, rank)` returns or raises on each rank, by rank; `open` is hio.open as
    the rank calls it. Nodes have `node_ranks` ranks each, the last one perhaps fewer; 0: all."""
    def as_rank(ranks: Communication) -> Any:
        node = str(ranks.rank // (node_ranks or size))
        return function(partial(hio.open, ranks=replace(ranks, place=node)), ranks.rank)

    return on_ranks(size, as_rank)


def succeeded(results: list[Any]) -> list[Any]:
    """The same results. Raises the first error among them."""
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results
