"""Computes and reduces for some seconds, then ends as it is told: what a profile looks at."""

from __future__ import annotations

import os
import signal
import sys
import time

import horovod.torch as hvd
import torch

SECONDS, END = float(sys.argv[1]), sys.argv[2]

torch.set_num_threads(1)
hvd.init()
print(f"rank {hvd.rank()} to stdout", flush=True)
print(f"rank {hvd.rank()} to stderr", file=sys.stderr, flush=True)
weights = torch.ones(200, 200, requires_grad=True)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weights], lr=0.0))
end = time.monotonic() + SECONDS
while True:
    for _ in range(5):
        optimizer.zero_grad()
        (weights @ weights).sum().backward()
        optimizer.step()
    # All stop at the same step.
    late = torch.tensor(float(time.monotonic() > end))
    if hvd.allreduce(late, op=hvd.Sum, name="late") > 0:
        break
    if END == "killed" and hvd.rank() == 1 and time.monotonic() > end - SECONDS / 2:
        os.kill(os.getpid(), signal.SIGKILL)
hvd.shutdown()
sys.exit(3 if END == "fails" else 0)
