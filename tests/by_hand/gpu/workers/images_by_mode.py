"""Images/s of a ResNet on synthetic images, in several configs one after the other, in rounds.

Arguments: model, pixels, images a rank and step, seconds of a measurement, rounds, threads, device,
configs (JSON; see Config in part_images.py).
"""

from __future__ import annotations

import gc
import json
import sys
import time

import horovod.torch as hvd
import torch
from common import RANK, graph_plans, report, running, start_mpi
from horovod.torch.mpi_ops import _basics
from late_gradients import choose_gpu
from torch_models import NETWORKS
from training import LEARNING_RATE, WARM_UP

ALONE = "no communication"
TIMED = 3  # steps, to know how long one takes

model, pixels, batch, seconds, rounds, threads, device = sys.argv[2:9]
configs = json.loads(sys.argv[9])


class Training:
    def __init__(self, config: dict):
        self.device = torch.device(device)
        if device == "cuda":
            self.device = torch.device("cuda", choose_gpu())
        dtype = getattr(torch, config["dtype"])
        torch.manual_seed(0)
        network = NETWORKS[model]().to(self.device, dtype)
        self.network = network
        self.optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)
        if config["mode"] != ALONE:
            self.optimizer = hvd.DistributedOptimizer(
                self.optimizer, named_parameters=network.named_parameters())
            if hvd.size() == 1:  # upstream asks for no sums of one rank
                self.optimizer._reduces = True
                self.optimizer._register_hooks()
        own = torch.Generator().manual_seed(RANK)
        images = torch.rand(int(batch), 3, int(pixels), int(pixels), generator=own)
        self.images = images.to(self.device, dtype)
        self.labels = torch.arange(int(batch), device=self.device)

    def seconds_for(self, steps: int) -> float:
        """Of this rank, with all that its GPU does."""
        begun = time.perf_counter()
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.network(self.images).float(), self.labels)
            loss.backward()
            self.optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begun


def slowest(value: float) -> float:
    return max(hvd.allgather_object(value))


def measure(config: dict) -> tuple[float, bool]:
    """Images/s of all ranks, and whether the gradients were planned, where they are to be."""
    mode = "off" if config["mode"] == ALONE else config["mode"]
    size = {"HOROVOD_FUSION_THRESHOLD": str(config["bucket_mib"] << 20)}
    gc.collect()  # models and plans of the config before
    with running(hvd, mode, **(size if config["bucket_mib"] else {})):
        training = Training(config)
        training.seconds_for(1 + WARM_UP)
        once = slowest(training.seconds_for(TIMED)) / TIMED
        steps = max(TIMED, round(float(seconds) / once))
        took = slowest(training.seconds_for(steps))
        active = any(plan.state == "active" and plan.iterations for plan in graph_plans())
        hvd.barrier()  # the first that shuts down ends the background thread of all
    planned = active or not {"topo", "auto"} & set(mode.split("+"))
    return hvd_size * int(batch) * steps / took, planned


start_mpi(_basics.MPI_LIB_CTYPES)
torch.set_num_threads(int(threads))
torch.backends.cudnn.benchmark = True
with running(hvd, "off"):
    hvd_size = hvd.size()
rates_by_config = [[] for _ in configs]
unplanned = []
for _ in range(int(rounds)):
    for config, rates in zip(configs, rates_by_config):
        rate, planned = measure(config)
        rates.append(rate)
        unplanned += [] if planned else [config]
report(measured=[{"config": config, "images_per_second": rates}
                 for config, rates in zip(configs, rates_by_config)], unplanned=unplanned)
