"""The table of what `make test` leaves to `make test-rest` speaks of files that are there."""

from __future__ import annotations

from types import SimpleNamespace

import choice
import pytest


def is_left(file: str, name: str) -> bool:
    path = choice.TESTS / file
    return choice.is_left(SimpleNamespace(path=path, nodeid=f"tests/{file}::{name}"))


def test_folders_and_files_exist():
    assert [name for name in choice.FOLDERS if not (choice.TESTS / name).is_dir()] == []
    assert [name for name in choice.FILES if not (choice.TESTS / name).is_file()] == []


@pytest.mark.parametrize("file, name, left", [
    ("lab/bench/test_series.py", "test_a", True),
    ("unit/harness/test_choice.py", "test_a", True),
    ("unit/graph/test_graph_order.py", "test_a[mpi]", False),
    ("jobs/topo/test_topo_differs.py", "test_a[gloo-one-shape]", True),
    ("jobs/topo/test_topo_differs.py", "test_a[mpi-one-shape]", False),
    ("jobs/launcher/test_launcher.py", "test_a[mpi]", False),
])
def test_what_is_left(file, name, left):
    assert is_left(file, name) == left


@pytest.mark.parametrize("file, marks", [
    ("unit/graph/test_graph_order.py", {"fast": ["quick"], "slow": []}),
    ("unit/gpu/test_gpu_run.py", {"fast": ["full", "quick"], "slow": ["full"]}),
    ("jobs/launcher/test_launcher.py", {"fast": [], "slow": []}),
])
def test_marks(monkeypatch, file, marks):
    given = {name: [] for name in marks}
    items = [SimpleNamespace(path=choice.TESTS / file, nodeid=f"tests/{file}::{name}",
                             add_marker=of_test.append) for name, of_test in given.items()]
    monkeypatch.setattr(choice.durations, "recorded", lambda: {f"tests/{file}::slow": 2.0})
    choice.pytest_collection_modifyitems(items)
    assert given == marks
