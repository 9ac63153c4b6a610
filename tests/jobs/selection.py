"""Rows of a test that run with `-m slow` only: jobs of their own, near to what others cover."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest


def by_hand(*values: object, **options: object) -> object:
    return pytest.param(*values, marks=pytest.mark.slow, **options)


def rest_by_hand(rows: Iterable, each_time: Callable[..., bool]) -> list:
    """`rows`, values or tuples of them; by hand but for those of which `each_time` says so."""
    return [row if each_time(*values) else by_hand(*values)
            for row in rows for values in [row if isinstance(row, tuple) else (row,)]]
