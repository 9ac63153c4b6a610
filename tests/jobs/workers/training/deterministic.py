"""Trains the same several times, with other delays between the gradients of a step each time.

Argument: as JSON, by run, its mode, settings, and seed of the delays.
"""

import faulthandler
import hashlib
import json
import random
import sys
import time

import horovod.torch as hvd
import torch
from common import RANK, graph_plans, report, running, start_mpi
from horovod.torch.mpi_ops import _basics

STEPS, LAYERS, METRICS = 50, 8, 6


def train(seed: int) -> dict:
    """A digest of the weights, and of what was reduced beside the gradients."""
    delays = random.Random(100 * seed + RANK)
    torch.manual_seed(1)
    layers = [layer for size in range(LAYERS)
              for layer in (torch.nn.Linear(20 + size, 21 + size), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers)
    for parameter in model.parameters():
        parameter.register_hook(lambda _: time.sleep(delays.choice([0, 0, 0.0005, 0.002])))
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sgd = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters())
    data = torch.Generator().manual_seed(RANK)
    digest = hashlib.sha256()
    for _ in range(STEPS):
        sgd.zero_grad()
        loss = (model(torch.randn(7, 20, generator=data)) ** 2).sum()
        loss.backward()
        handles = []
        for metric in range(METRICS):
            time.sleep(delays.choice([0, 0.001]))
            value = torch.randn(33, generator=data) * (metric + 1)
            handles.append(hvd.allreduce_async(value, name=f"metric.{metric}"))
        sgd.step()
        for handle in handles:
            digest.update(hvd.synchronize(handle).numpy().tobytes())
    for weights in model.state_dict().values():
        digest.update(weights.numpy().tobytes())
    return {"digest": digest.hexdigest(),
            "planned_iterations": [plan.iterations for plan in graph_plans()]}


faulthandler.dump_traceback_later(140)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
reports = {}
for name, (mode, settings, seed) in json.loads(sys.argv[2]).items():
    with running(hvd, mode, **settings):
        reports[name] = train(seed)
report(**reports)
