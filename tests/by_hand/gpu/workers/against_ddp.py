"""Steps/s of networks in mode off, in topo, and under PyTorch's DistributedDataParallel, by turns,
in one process a rank. One rank reduces, too.

Arguments: size of the networks (full or tiny), device, seconds of a measurement, rounds, ways
(JSON: name, and settings of Horovod).
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import time

import horovod.torch as hvd
import torch
from common import RANK, graph_plans, report, running, start_mpi
from horovod.torch.mpi_ops import _basics
from late_gradients import choose_gpu
from torch import nn
from torch_models import NETWORKS

DDP, ALONE = "DistributedDataParallel", "no communication"
WARM_UP, TIMED = 15, 3  # steps

folder, size, kind, seconds, rounds = sys.argv[1:6]
ways = json.loads(sys.argv[6])
is_full = size == "full"


class Transformer(nn.Module):
    """85M parameters without the table, as GPT-2's smallest has them."""

    def __init__(self, layers: int, width: int, heads: int):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs).mean(1)


def linear_layers() -> nn.Module:
    return nn.Sequential(*(nn.Linear(256, 256) for _ in range(60 if is_full else 6)))


MODELS = {  # what makes it, and the shape of a batch
    "ResNet50, bfloat16 autocast": (NETWORKS["ResNet50" if is_full else "ResNet18"],
                                    (64, 3, 224, 224) if is_full else (2, 3, 32, 32)),
    "transformer, bfloat16 autocast": (
        (lambda: Transformer(12, 768, 12)) if is_full else (lambda: Transformer(2, 64, 4)),
        (16, 128, 768) if is_full else (2, 8, 64)),
    "60 linear layers of 256": (linear_layers, (64, 256)),
}


class Training:
    def __init__(self, model: str, way: str, device: torch.device):
        torch.manual_seed(0)
        build, shape = MODELS[model]
        self.network = build().to(device)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-3)
        self.batch = torch.rand(shape, device=device)
        self.autocast = "autocast" in model
        if way == DDP:
            self.network = nn.parallel.DistributedDataParallel(
                self.network, device_ids=[device.index] if device.type == "cuda" else None)
        elif way != ALONE:
            self.optimizer = hvd.DistributedOptimizer(
                self.optimizer, named_parameters=self.network.named_parameters())
            if hvd.size() == 1:  # upstream asks for no sums of one rank
                self.optimizer._reduces = True
                self.optimizer._register_hooks()

    def seconds_for(self, steps: int) -> float:
        begun = time.perf_counter()
        for _ in range(steps):
            self.optimizer.zero_grad()
            with torch.autocast(self.batch.device.type, torch.bfloat16, enabled=self.autocast):
                loss = self.network(self.batch).float().square().mean()
            loss.backward()
            self.optimizer.step()
        if self.batch.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - begun


def measure(model: str, way: str, settings: dict, device: torch.device) -> tuple[float, bool]:
    """Steps/s, and whether what is to be planned was."""
    gc.collect()
    mode = settings.get("HOROVOD_OPT_MODE", "off")
    others = {name: value for name, value in settings.items() if name != "HOROVOD_OPT_MODE"}
    with running(hvd, mode, **others):
        training = Training(model, way, device)
        training.seconds_for(WARM_UP)
        once = max(hvd.allgather_object(training.seconds_for(TIMED))) / TIMED
        steps = max(TIMED, round(float(seconds) / once))
        took = max(hvd.allgather_object(training.seconds_for(steps)))
        planned = any(plan.state == "active" and plan.iterations for plan in graph_plans())
        hvd.barrier()
    return steps / took, planned or mode != "topo"


start_mpi(_basics.MPI_LIB_CTYPES)
torch.backends.cudnn.benchmark = True
with running(hvd, "off"):
    device = torch.device(kind, choose_gpu()) if kind == "cuda" else torch.device(kind)
    torch.distributed.init_process_group(
        "nccl" if kind == "cuda" else "gloo", init_method=f"file://{folder}/meeting", rank=RANK,
        world_size=hvd.size())
measured: dict[str, dict[str, list[float]]] = {model: {way: [] for way in ways} for model in MODELS}
unplanned = []
for _ in range(int(rounds)):
    for model in MODELS:
        for way, settings in ways.items():
            rate, planned = measure(model, way, settings, device)
            measured[model][way].append(rate)
            unplanned += [] if planned else [f"{model}: {way}"]
with contextlib.suppress(RuntimeError):
    torch.distributed.destroy_process_group()
report(measured=measured, unplanned=unplanned)
