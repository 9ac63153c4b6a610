"""Trains a small network for a few steps and reports the hashes of its weights, and counters."""

import dataclasses
import hashlib

import horovod.torch as hvd
import torch
from common import report

import horovod_opt

STEPS = 8


def weights(model: torch.nn.Module) -> str:
    state = b"".join(part.detach().numpy().tobytes() for part in model.parameters())
    return hashlib.sha256(state).hexdigest()


def counters() -> dict:
    return dataclasses.asdict(horovod_opt.stats())


try:
    horovod_opt.stats()
    before = "nothing raised"
except ValueError as error:
    before = str(error)

hvd.init()
torch.manual_seed(hvd.rank())  # each rank draws its own weights and data
model = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

initial = weights(model)
snapshots = [counters()]
for _ in range(STEPS):
    inputs, labels = torch.randn(20, 12), torch.randint(3, (20,))
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
    snapshots.append(counters())
hvd.shutdown()
snapshots.append(counters())
report(initial=initial, final=weights(model), before=before, stats=snapshots)
