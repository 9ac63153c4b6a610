"""Testbeds for tests, where this machine can make them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from jobs import HANG_SECONDS

from horovod_lab.io.testbeds.crashing_storage import CrashingStorage
from horovod_lab.io.testbeds.testbed import NoTestbed, Testbed


@pytest.fixture
def open_testbed() -> Iterator[Callable[[Testbed], Testbed]]:
    """Makes a testbed, and removes it after the test."""
    with ExitStack() as stack:
        def make(testbed: Testbed) -> Testbed:
            try:
                return stack.enter_context(testbed)
            except NoTestbed as refusal:
                pytest.skip(str(refusal))

        yield make


@pytest.fixture(scope="module")
def crashing(tmp_path_factory) -> Iterator[CrashingStorage]:
    """Of two nodes, empty for the first test of a module."""
    try:
        with CrashingStorage(tmp_path_factory.mktemp("data"), 2) as storage:
            yield storage
    except NoTestbed as refusal:
        pytest.skip(str(refusal))


@pytest.fixture
def run_on() -> Callable[..., str]:
    """Runs a command on a node of a testbed, and returns what it prints."""

    def run(testbed: Testbed, *command: object, node: int = 0) -> str:
        return subprocess.run(testbed.command(node, [*map(str, command)]), check=True, cwd="/",
                              stdout=subprocess.PIPE, text=True, errors="replace",
                              timeout=HANG_SECONDS).stdout

    return run
