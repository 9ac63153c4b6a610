"""The index of a data set: `load` one that is kept, or `build` it; `check_files` again later."""

from __future__ import annotations

from horovod_opt.io.errors import Damaged, Missing, Stale
from horovod_opt.io.index.builder import build, refuse_truncated
from horovod_opt.io.index.data_index import Index
from horovod_opt.io.index.files import Change, find_changes
from horovod_opt.io.index.lookup import Fingerprint, load, load_same, read_same
from horovod_opt.io.index.selection import SampleTable, Selection

__all__ = ["Change", "Damaged", "Fingerprint", "Index", "Missing", "SampleTable", "Selection",
           "Stale", "build", "check_files", "load", "load_same", "read_same", "refuse_truncated"]


def check_files(index: Index) -> list[Change]:
    """Files whose size, time of change or (LMDB) last transaction differ now; none is good."""
    return find_changes(index.root, index.files, index.transactions)
