"""The reader's library, compiled from this checkout."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from building import native as building
from horovod_opt.io import native
from horovod_opt.io.node_reader import layout, reader_process

ROOT = Path(__file__).parents[3]


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
    from horovod_opt.io.tensorflow.kernel import operations

    with one_at_a_time() as package:
        building.compile_kernel(building.find_tensorflow(os.environ), "c++", os.environ,
                                ROOT / "build", package)
    operations.cache_clear()  # other tests may have looked for it before


@pytest.fixture(params=["kernel", "generator"])
def source(request, monkeypatch) -> str:
    """Who makes the batches for TensorFlow: the test runs with both."""
    from horovod_opt.io.tensorflow import dataset
    from horovod_opt.io.tensorflow.elements import Elements

    if request.param == "generator":
        monkeypatch.setattr(sys.modules[dataset.__module__], "operations", lambda: None)
    else:
        request.getfixturevalue("kernel")

        def refuse(*_: object) -> None:
            raise AssertionError("a batch is made in Python")

        monkeypatch.setattr(Elements, "flat", refuse)
    return request.param


@pytest.fixture
def failing_reader(monkeypatch) -> str:
    """The reader of a node cannot go on after a while; what every rank then says, an expression."""
    calls = []

    def extents_of_chunks(index, chunk_samples, chunks, mask):
        calls.append(chunks)
        if len(calls) == 2:
            raise OSError(5, "the index cannot be read")
        return layout.extents_of_chunks(index, chunk_samples, chunks, mask)

    monkeypatch.setattr(reader_process, "layout", SimpleNamespace(
        chunk_bytes=layout.chunk_bytes, counts_of=layout.counts_of,
        extents_of_chunks=extents_of_chunks))
    return "reader, .* OSError: .* the index cannot be read"


@pytest.fixture(autouse=True)
def library(compiled, monkeypatch):
    """What native.library() loads, also in processes that a test starts."""
    monkeypatch.setenv(native.PATH, str(compiled))
    if native.library()._name != str(compiled):  # a test elsewhere has loaded an installed one
        for function in (native.library, native.with_lock, native._checksums):
            function.cache_clear()
    return native.library()
