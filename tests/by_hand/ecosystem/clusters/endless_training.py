"""Trains for ever on every rank, until the last one does what the second argument says.

    python endless_training.py FOLDER exits|is killed|goes on
"""

import os
import signal
import sys
from pathlib import Path

import horovod.torch as hvd
import torch

FAULT = 300  # the step

folder, how = Path(sys.argv[1]), sys.argv[2]
hvd.init()
torch.set_num_threads(1)
model = torch.nn.Linear(8, 4)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.001), named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
step = 0
while True:
    optimizer.zero_grad()
    model(torch.ones(2, 8)).square().mean().backward()
    optimizer.step()
    step += 1
    if step == FAULT:
        (folder / f"trains-{hvd.rank()}").touch()
    if step > FAULT and hvd.rank() == hvd.size() - 1 and how != "goes on":
        (folder / "fault").touch()
        if how == "exits":
            sys.exit(7)
        os.kill(os.getpid(), signal.SIGKILL)
