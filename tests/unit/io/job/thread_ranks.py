"""Ranks that are threads of a test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from horovod_opt.io.job.communication import Communication


def on_ranks(size: int, function: Callable[[Communication], Any]) -> list[Any]:
    """What `function` returns or raises on each rank, by rank."""
    barrier = threading.Barrier(size)
    gathered: list[bytes] = [b""] * size
    results: list[Any] = [None] * size

    def communication(rank: int) -> Communication:
        def allgather(data: bytes) -> list[bytes]:
            gathered[rank] = data
            barrier.wait(60)
            all_ranks = list(gathered)
            barrier.wait(60)
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
