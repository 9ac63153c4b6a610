"""What the unit tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from horovod_opt.counters import TABLE, Stats
from horovod_opt.settings import PREFIX

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    """No setting of the shell reaches a test; Pythons that a test starts find this checkout."""
    for name in list(os.environ):
        if name.startswith(PREFIX):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def make_stats():
    """Counters of one rank: numbers that are all different, unless given."""

    def make(**fields: object) -> Stats:
        values = {row.field: number + 1 for number, row in enumerate(TABLE)}
        return Stats(**{**values, "mode": "nbcs", "controller": "mpi", "messages": "none",
                        **fields})

    return make
