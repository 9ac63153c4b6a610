"""The input side: data sets that each node reads once, in an order that any rank can compute.

    import horovod_opt.io as hio
    data = hio.open("/data/train-*.tfrecord", seed=1)
    for batch in hio.torch.loader(data, batch_size=64, decode=decode): ...

docs/io.md is the page for users. No framework, MPI or Horovod is imported here; hio.torch imports
PyTorch when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from horovod_opt.io.batch import BatchInfo
from horovod_opt.io.data import Data
from horovod_opt.io.errors import Damaged, DataError, InputError, Missing, Stale
from horovod_opt.io.opening import open
from horovod_opt.io.reader.errors import ReaderEnded
from horovod_opt.io.sample import Sample

__all__ = ["BatchInfo", "Damaged", "Data", "DataError", "InputError", "Missing", "ReaderEnded",
           "Sample", "Stale", "open", "torch"]

ADAPTERS = ("torch",)


def __getattr__(name: str) -> Any:
    if name in ADAPTERS:
        return importlib.import_module(f"horovod_opt.io.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
