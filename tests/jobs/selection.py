"""Which rows of a test run by themselves, and where: by hand only, or on hosts of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from horovod_lab.measuring.virtual_hosts import NoHosts, VirtualHosts


def by_hand(*values: object, **options: object) -> object:
    """A row that runs with `-m slow` only: a job of its own, near to what others cover."""
    return pytest.param(*values, marks=pytest.mark.slow, **options)


def rest_by_hand(rows: Iterable, each_time: Callable[..., bool]) -> list:
    """`rows`, values or tuples of them; by hand but for those of which `each_time` says so."""
    return [row if each_time(*values) else by_hand(*values)
            for row in rows for values in [row if isinstance(row, tuple) else (row,)]]


def hosts_or_skip(folder: Path, number: int, megabits: float | None = None) -> VirtualHosts:
    """Hosts with networks of their own, arguments as of VirtualHosts; without the programs or
    rights the test is skipped."""
    try:
        return VirtualHosts(folder, number, megabits)
    except NoHosts as missing:
        pytest.skip(str(missing))
