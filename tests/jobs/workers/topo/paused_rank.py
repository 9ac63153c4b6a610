"""Rank 0 pauses in the middle of training, as for a validation; the others wait in a bucket."""

import sys
import time

import horovod.torch as hvd
import torch
from common import RANK, report

import horovod_opt

STEPS, PAUSES_IN = 60, 50

hvd.init()
sums = []
for step in range(STEPS):
    if step == PAUSES_IN:
        before = horovod_opt.stats().planned_buckets
    if RANK == 0 and step == PAUSES_IN:
        time.sleep(float(sys.argv[2]))
    sums.append(hvd.allreduce(torch.full((3,), float(RANK + step)), name="step",
                              op=hvd.Sum).tolist())
stats = horovod_opt.stats()
hvd.shutdown()
report(sums=sums, planned=[before, stats.planned_buckets], messages=stats.messages,
       agreements=stats.agreements)
