"""One task for each of many items, by threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_all(pool: ThreadPoolExecutor, task: Callable[[Item], Result], items: Iterable[Item]
            ) -> list[Result]:
    """Results in the order of the items. Raises the first error in that order; what has not begun
    by then is not begun."""
    futures = [pool.submit(task, item) for item in items]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
