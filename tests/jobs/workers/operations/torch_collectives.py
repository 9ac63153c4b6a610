"""Rank 0 has joined while the others gather: each reports the errors that it got, and a sum."""

from __future__ import annotations

import horovod.torch as hvd
import torch
from common import RANK, report

TIMES = 200

hvd.init()
errors: dict[str, int] = {}
if RANK != 0:
    for i in range(TIMES):
        try:
            hvd.allgather(torch.ones(RANK + 1, 2), name=f"gathered.{i}")
        except hvd.HorovodInternalError as error:
            text, _, _ = str(error).partition(" Tensor 'allgather.gathered.")
            errors[text] = errors.get(text, 0) + 1
hvd.join()
total = hvd.allreduce(torch.tensor([RANK + 1.0]), op=hvd.Sum, name="after").item()
report(errors=errors, total=total)
