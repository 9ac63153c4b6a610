"""The index of a data set: `load` one that is kept, or `build` it; `check_files` again later."""

from __future__ import annotations

from horovod_opt.io.errors import Damaged, Missing, Stale
from horovod_opt.io.index.building import build
from horovod_opt.io.index.data_index import Index
from horovod_opt.io.index.files import Changed, changes
from horovod_opt.io.index.loading import load

__all__ = ["Changed", "Damaged", "Index", "Missing", "Stale", "build", "check_files", "load"]


def check_files(index: Index) -> list[Changed]:
    """Files whose size, time of change or (LMDB) last transaction differ now; none is good."""
    return changes(index.root, index.files, index.transactions)
