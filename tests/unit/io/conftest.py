"""The reader's library, compiled from this checkout."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from building import native as building
from horovod_opt.io.reader import native

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def compiled() -> Path:
    """The library of this checkout's sources, a copy for each process of pytest: one that is in use
    must not be written. One compiles, the others wait."""
    if shutil.which("c++") is None:
        pytest.skip("needs a C++ compiler, c++")
    folder = ROOT / "build" / "io"
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / f"package-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        building.compile_reader("c++", os.environ, ROOT / "build", package)
    return package / native.FOLDER / native.LIBRARY


@pytest.fixture(autouse=True)
def library(compiled, monkeypatch):
    """What native.library() loads, also in processes that a test starts."""
    monkeypatch.setenv(native.PATH, str(compiled))
    return native.library()
