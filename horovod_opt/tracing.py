"""Graphs as they are on one of several ranks, in a process that is alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def two_ranks() -> Iterator[None]:
    """Horovod leaves the allreduces out of the graph of a single rank. While this is active it
    traces what rank 0 of two would, in TensorFlow; no Horovod need be initialised."""
    import horovod.tensorflow as hvd

    def size() -> int:
        return 2

    def included() -> bool:
        return True

    methods = {"size": size, "included": included}
    vars(hvd.global_process_set).update(methods)
    try:
        yield
    finally:
        for name in methods:
            delattr(hvd.global_process_set, name)
