"""Computes and reduces until a profile has seen enough of it, then ends as it is told.

    python profile_work.py FOLDER END

The profile has when there is a file `seen` in FOLDER. A rank that ends by itself leaves its CPU
seconds there, in `cpu-RANK`. END is ends, fails, killed (rank 1) or stays, which never ends.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path

import horovod.torch as hvd
import torch

FOLDER, END = Path(sys.argv[1]), sys.argv[2]

torch.set_num_threads(1)
hvd.init()
rank = hvd.rank()
print(f"rank {rank} to stdout", flush=True)
print(f"rank {rank} to stderr", file=sys.stderr, flush=True)
weights = torch.ones(200, 200, requires_grad=True)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weights], lr=0.0))
while True:
    for _ in range(5):
        optimizer.zero_grad()
        (weights @ weights).sum().backward()
        optimizer.step()
    is_seen = (FOLDER / "seen").exists()
    if is_seen and END == "killed" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    # All stop at the same step.
    late = torch.tensor(float(is_seen and END in ("ends", "fails")))
    if hvd.allreduce(late, op=hvd.Sum, name="late") > 0:
        break
hvd.shutdown()
usage = resource.getrusage(resource.RUSAGE_SELF)
(FOLDER / f"cpu-{rank}").write_text(str(usage.ru_utime + usage.ru_stime))
sys.exit(3 if END == "fails" else 0)
