"""The input side's library and its kernel for TensorFlow, compiled from this checkout.

Tests in whose process TensorFlow loads the kernel have these fixtures: it loads one for all.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from building import native as building
from horovod_opt.io import native

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def compiled() -> Path:
    """The library of this checkout's sources, a copy for each process of pytest: one that is in use
    must not be written. One compiles, the others wait."""
    if shutil.which("c++") is None:
        pytest.skip("needs a C++ compiler, c++")
    with one_at_a_time() as package:
        building.compile_reader("c++", os.environ, ROOT / "build", package)
    return package / native.FOLDER / native.LIBRARY


@contextmanager
def one_at_a_time() -> Iterator[Path]:
    """Of the processes of pytest compiles; yields where this one has its libraries."""
    folder = ROOT / "build" / "io"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / f"package-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"


@pytest.fixture(scope="session")
def kernel(compiled) -> None:
    """The kernel for this TensorFlow, beside the library."""
    import tensorflow as tf

    from horovod_opt.io.tensorflow.kernel import operations

    # As find_tensorflow() would say, in a process that imports it again.
    here = building.Framework(tf.__version__, tuple(tf.sysconfig.get_compile_flags()),
                              tuple(tf.sysconfig.get_link_flags()))
    with one_at_a_time() as package:
        building.compile_kernel(here, "c++", os.environ, ROOT / "build", package)
    operations.cache_clear()  # other tests may have looked for it before


@pytest.fixture
def library(compiled, monkeypatch):
    """What native.library() loads, also in processes that a test starts. Where another test has
    loaded an installed one it stays that: the kernel takes the first that its process has."""
    monkeypatch.setenv(native.PATH, str(compiled))
    return native.library()
