"""What the tests of the input side share."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from horovod_opt.io.node_reader import layout, reader_process


@pytest.fixture(autouse=True)
def _of_this_checkout(library):
    """Of the checkout, unless its process has loaded an installed one before."""


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
def unsynced(monkeypatch) -> None:
    """What has to be synced is tried in checkpoints/test_crashes.py; elsewhere it takes time."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


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
