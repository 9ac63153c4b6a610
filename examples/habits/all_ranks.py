"""What the scripts of habits need of the job that they run in.

`hvd` is horovod.torch or horovod.tensorflow. A process that no launcher has started is a job of one
rank.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path


@contextlib.contextmanager
def folder_of(hvd, write: Callable[[Path], object]) -> Iterator[Path]:
    """A folder that all ranks see, with what `write(folder)` writes on rank 0. It is removed at the
    end, on one node: with several, it would have to be in a file system of all of them."""
    hvd.init()
    first = hvd.rank() == 0
    with tempfile.TemporaryDirectory() if first else contextlib.nullcontext("") as name:
        if first:
            write(Path(name))
        yield Path(hvd.broadcast_object(name))
        meet(hvd)


def meet(hvd) -> None:
    """Returns when all ranks have called it."""
    hvd.allgather_object(None)


def gather(hvd, items: Iterable) -> list:
    """The items of all ranks, sorted."""
    return sorted(item for of_rank in hvd.allgather_object(list(items)) for item in of_rank)


def say(hvd, text: str) -> None:
    """A line for all ranks."""
    if hvd.rank() == 0:
        print(text, flush=True)
