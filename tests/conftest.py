"""What all tests share: the plugins of tests/session, and what the installed Horovod has."""

from __future__ import annotations

import gc
import importlib.util
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

pytest_plugins = ["skips", "durations", "choice", "io_library"]

with suppress(ImportError):  # not where only jobs are tried
    from hypothesis import HealthCheck, settings

    # How long an example takes, or its choice, is the machine's.
    settings.register_profile("any machine", settings.default, deadline=None,
                              suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")

# A shell that starts the tests in the background has them, and all they start, ignore it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Garbage collections of tests need not look at all that modules and tests are."""
    gc.freeze()


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
