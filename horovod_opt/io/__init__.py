"""The input side: data sets that each node reads once, in an order that any rank can compute.

    import horovod_opt.io as hio
    data = hio.open("/data/train-*.tfrecord", seed=1)
    for batch in hio.torch.loader(data, batch_size=64, decode=decode): ...

docs/use/io.md is the page for users. No framework, MPI or Horovod is imported here; hio.torch,
hio.tensorflow and hio.keras import theirs. Whatever it is, it is imported when it is first used:
the command horovod-opt, which has a part here, is to start at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horovod_opt.io import elastic, keras, tensorflow, torch
    from horovod_opt.io.batch import BatchInfo
    from horovod_opt.io.checkpoints.burst_buffer import BurstBuffer
    from horovod_opt.io.data import Data
    from horovod_opt.io.data_opener import open
    from horovod_opt.io.errors import (
        Damaged,
        DataError,
        InputError,
        Missing,
        ReaderEnded,
        Skip,
        Stale,
    )
    from horovod_opt.io.index.selection import SampleTable
    from horovod_opt.io.job.communication import Communication
    from horovod_opt.io.sample import Sample
    from horovod_opt.io.sample_batch import SampleBatch

__all__ = ["BatchInfo", "BurstBuffer", "Communication", "Damaged", "Data", "DataError",
           "InputError", "Missing", "ReaderEnded", "Sample", "SampleBatch", "SampleTable", "Skip",
           "Stale", "elastic", "keras", "open", "tensorflow", "torch"]

_MODULES = {"BatchInfo": "batch", "BurstBuffer": "checkpoints.burst_buffer",
            "Communication": "job.communication", "Data": "data",
            "Sample": "sample", "SampleBatch": "sample_batch", "SampleTable": "index.selection",
            "open": "data_opener",
            **dict.fromkeys(("Damaged", "DataError", "InputError", "Missing", "ReaderEnded",
                             "Skip", "Stale"), "errors")}
_ADAPTERS = ("elastic", "keras", "tensorflow", "torch")


def __getattr__(name: str) -> Any:
    if name in _ADAPTERS:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
