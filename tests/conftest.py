"""What all tests share: which run when, and what the installed Horovod has."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import durations
import pytest
import skips

HERE = Path(__file__).parent
# What users do not run: tools that measure, and those of developers. `make test` leaves it out.
FULL = tuple(HERE / folder for folder in (
    "lab", "fuzz", "unit/clusters", "unit/examples", "unit/gpu", "unit/harness", "unit/matrix"))


def pytest_addoption(parser: pytest.Parser) -> None:
    for plugin in (skips, durations):
        plugin.pytest_addoption(parser)


def pytest_configure(config: pytest.Config) -> None:
    for plugin in (skips, durations):
        plugin.pytest_configure(config)
    config.pluginmanager.register(durations, "durations")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks, by folder and recorded duration."""
    slow = durations.recorded()
    for item in items:
        if any(folder in item.path.parents for folder in FULL):
            item.add_marker("full")
        if HERE / "unit" in item.path.parents and item.nodeid not in slow:
            item.add_marker("quick")


@pytest.fixture(scope="session")
def parts() -> set[str]:
    """What the installed Horovod was built with."""
    from horovod_opt.launcher import built

    horovodrun = Path(sys.executable).with_name("horovodrun")
    if importlib.util.find_spec("horovod") is None or not horovodrun.exists():
        pytest.skip(f"horovod-opt is not installed for {sys.executable}")
    return {*built.notes()["frameworks"], *built.controllers()}


PARTS = {"mpi": "MPI", "gloo": "Gloo", "torch": "PyTorch", "tensorflow": "TensorFlow"}


@pytest.fixture(scope="session")
def need(parts):
    """Skips the test if Horovod was built without one of the named parts."""

    def need(*names: str) -> None:
        for name in names:
            if PARTS[name] not in parts:
                pytest.skip(f"this Horovod was built without {PARTS[name]}")

    return need
