"""Trains elastically; the first worker with rank 1 dies between two commits."""

import hashlib
import os
import signal

import horovod.torch as hvd
import torch
from common import FOLDER

DEAD = FOLDER / "dead"
STEPS, COMMIT_EVERY, DEATH = 12, 3, 7

hvd.init()
torch.manual_seed(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)


def note(text: str) -> None:
    with open(FOLDER / f"notes.{os.environ['HOROVOD_HOSTNAME']}", "a") as file:
        file.write(text + "\n")


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    note(f"starts at step {state.step} with {hvd.size()} ranks")
    while state.step < STEPS:
        if state.step == DEATH and hvd.rank() == 1 and not DEAD.exists():
            DEAD.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        generator = torch.Generator().manual_seed(10 * state.step + hvd.rank())
        optimizer.zero_grad()
        model(torch.randn(8, 4, generator=generator)).square().mean().backward()
        optimizer.step()
        state.step += 1
        if state.step % COMMIT_EVERY == 0:
            state.commit()


train(state)
weights = b"".join(part.detach().numpy().tobytes() for part in model.parameters())
note(f"ends with {hashlib.sha256(weights).hexdigest()}")
hvd.shutdown()
