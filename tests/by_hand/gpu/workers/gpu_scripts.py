"""What scripts do on GPUs: averages of float16 at two places of a buffer, a model in channels_last,
an error in the backward pass that is caught, sums on a stream of the script's own.

Arguments: device.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys

import horovod.torch as hvd
import torch
from common import graph_plans, report, running, start_mpi
from horovod.torch.mpi_ops import _basics
from late_gradients import choose_gpu
from torch import nn

ELEMENTS, OFFSETS = 1 << 16, (0, 1000, 4096 + 24)
SMALL = 1e-5  # of gradients of which float16's halves are inexact
STEPS, FAILS = 20, 12
LATE_CYCLES = 20_000_000  # that a GPU is kept busy

kind = sys.argv[2]


def stream_of_its_own():
    return torch.cuda.stream(torch.cuda.Stream()) if kind == "cuda" else contextlib.nullcontext()


def busy() -> None:
    if kind == "cuda":
        torch.cuda._sleep(LATE_CYCLES)


def differing(op, fused: bool) -> int:
    """How many elements depend on what was reduced with the tensor."""
    own = torch.Generator().manual_seed(hvd.rank())
    tensor = (SMALL * torch.randn(ELEMENTS, generator=own)).half().to(device)
    results = []
    for number, offset in enumerate(OFFSETS):
        name = f"{op}.{fused}.{number}"
        if fused:
            before = torch.ones(offset + 1, dtype=torch.float16, device=device)
            results.append(hvd.grouped_allreduce([before, tensor], op=op, name=name)[1])
        else:
            results.append(hvd.allreduce(tensor, op=op, name=name))
    return sum(int((result != results[0]).sum()) for result in results)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Conv2d(3 if number == 0 else 8, 8, 3, padding=1)
                                      for number in range(6)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images).square().mean()


class OnPurpose(Exception):
    pass


def train(order: torch.memory_format = torch.contiguous_format, fails: int = -1) -> dict:
    """`fails`: the step in whose backward pass every rank gets an error, and catches it."""
    torch.manual_seed(0)
    network = Network().to(device, memory_format=order)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(network.parameters(), lr=0.1), named_parameters=network.named_parameters())
    own = torch.Generator().manual_seed(1 + hvd.rank())
    caught, step = 0, 0

    def fail(gradient: torch.Tensor) -> torch.Tensor:
        if step == fails:
            raise OnPurpose
        return gradient

    network.layers[2].weight.register_hook(fail)
    with stream_of_its_own():
        for step in range(STEPS):
            images = torch.rand(4, 3, 16, 16, generator=own).to(device, memory_format=order)
            optimizer.zero_grad()
            try:
                busy()
                network(images).backward()
            except OnPurpose:
                caught += 1
                optimizer.synchronize()
                continue
            optimizer.step()
        weights = torch.cat([it.detach().float().flatten() for it in network.parameters()]).cpu()
    digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()
    return {"digest": digest, "caught": caught, "finite": bool(weights.isfinite().all()),
            "same": len(set(hvd.allgather_object(digest))) == 1,
            "planned": sum(plan.iterations for plan in graph_plans())}


def sums_on_a_stream() -> int:
    """How many are wrong: the data is late, and the result is used at once."""
    wrong = 0
    with stream_of_its_own():
        for step in range(STEPS):
            busy()
            tensor = torch.full((100_000,), float(step + hvd.rank()), device=device)
            total = hvd.allreduce(tensor, op=hvd.Sum, name="on.a.stream")
            del tensor
            torch.full((100_000,), -1.0, device=device)  # in its memory
            expected = sum(step + rank for rank in range(hvd.size()))
            wrong += bool((total != expected).any())
    return wrong


start_mpi(_basics.MPI_LIB_CTYPES)
torch.backends.cudnn.deterministic = True
with running(hvd, "off"):
    device = torch.device(kind, choose_gpu()) if kind == "cuda" else torch.device(kind)
    halves = {"average": differing(hvd.Average, True), "sum": differing(hvd.Sum, True)}
    rows_in_off, last_in_off = train(), train(torch.channels_last)
with running(hvd, "off", HOROVOD_OPT_DETERMINISTIC="1"):
    halves["alone"] = differing(hvd.Average, True) + differing(hvd.Average, False)
with running(hvd, "topo"):
    rows, last, failed = train(), train(torch.channels_last), train(fails=FAILS)
with running(hvd, "topo", HOROVOD_ENABLE_ASYNC_COMPLETION="1"):
    asynchronous, wrong = train(), sums_on_a_stream()
report(halves=halves, in_off=[rows_in_off, last_in_off], rows=rows, channels_last=last,
       failed=failed, asynchronous=asynchronous, wrong=wrong)
