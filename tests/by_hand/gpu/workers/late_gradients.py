"""Gradients of hvd.DistributedOptimizer, before each of which its GPU is kept busy for a while. So
all of them are handed over long before the first one is there."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Sequence

import horovod.torch as hvd
import torch
from late_tensors import MAIN_MEMORY, LateTensors

from horovod_opt.planning.planner import bucket_limits

NO_LIBRARY = "-"
CALIBRATED_WITH = 20_000_000  # cycles


@functools.cache
def cycles_per_us() -> float:
    """Of torch.cuda._sleep()."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    torch.cuda._sleep(1000)
    events[0].record()
    torch.cuda._sleep(CALIBRATED_WITH)
    events[1].record()
    torch.cuda.synchronize()
    return CALIBRATED_WITH / (1000 * events[0].elapsed_time(events[1]))


class LateGradients:
    """As LateTensors, but on GPUs. The first tensor's gradient comes first."""

    def __init__(self, elements: Sequence[int], late_us: Sequence[int], devices: Sequence[int],
                 first_key: int = 1):
        self._dies_after = -1
        self._parameters = []
        for number, (count, late, device) in enumerate(zip(elements, late_us, devices)):
            where = "cpu" if device == MAIN_MEMORY else f"cuda:{device}"
            parameter = torch.nn.Parameter(torch.zeros(count, device=where))
            parameter.register_hook(functools.partial(self._delay, number, late))
            self._parameters.append(parameter)
        named = [(f"key.{first_key + number}", parameter)
                 for number, parameter in enumerate(self._parameters)]
        # Plans have the last parameter first.
        sgd = torch.optim.SGD([{"params": self._parameters[::-1]}], lr=0.0)
        self._optimizer = hvd.DistributedOptimizer(sgd, named_parameters=named, op=hvd.Sum)
        if hvd.size() == 1:  # upstream asks for no sums of one rank
            self._optimizer._reduces = True
            self._optimizer._register_hooks()
        self._beside = torch.cuda.Stream()
        self.returned_early = False
        self.ahead_ms = 0.0  # of the last gradient's data, the first one's sum; by CUDA's events

    def _delay(self, number: int, late_us: int, gradient: torch.Tensor) -> torch.Tensor:
        if number == self._dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if not gradient.is_cuda:
            return gradient
        torch.cuda._sleep(int(late_us * cycles_per_us()))
        return gradient.clone()  # to memory that has something else until then

    def sums(self, values: Sequence[torch.Tensor], dies_after: int = -1) -> list[torch.Tensor]:
        """`values` and result: in main memory."""
        cycles_per_us()
        self._dies_after = dies_after
        self._optimizer.zero_grad()
        # What is computed last has its gradient first.
        losses = [(parameter * value.to(parameter.device)).sum()
                  for parameter, value in reversed(list(zip(self._parameters, values)))]
        torch.cuda.synchronize()
        torch.autograd.backward(losses)
        there = torch.cuda.Event(enable_timing=True)
        there.record()
        self.returned_early = not there.query()
        first = self._optimizer._handles[self._parameters[0]][0]
        while not hvd.poll(first):
            time.sleep(50e-6)
        summed = torch.cuda.Event(enable_timing=True)
        summed.record(self._beside)
        self._optimizer.synchronize()
        torch.cuda.synchronize()
        self.ahead_ms = summed.elapsed_time(there)
        return [parameter.grad.cpu().clone() for parameter in self._parameters]


def late_tensors(library: str, elements: Sequence[int], late_us: Sequence[int],
                 devices: Sequence[int], buckets: Sequence[Sequence[int]], first_key: int = 1):
    """Tensors that are summed before their data is there: on GPUs, or in main memory with events
    that are not CUDA's. With a method sums(). `late_us`: by tensor, after the one before it.
    `devices`: by tensor, numbers of GPUs or MAIN_MEMORY. `buckets`: of numbers of tensors; on GPUs
    they follow from HOROVOD_FUSION_THRESHOLD. Call it in mode topo or off, after hvd.init()."""
    if library == NO_LIBRARY:
        return LateGradients(elements, late_us, devices, first_key)
    since_call = [sum(late_us[:number + 1]) for number in range(len(late_us))]
    late = LateTensors(library, elements, since_call, devices, first_key)
    late.add_plan(buckets, bucket_limits().main_memory)
    return late


def device_of(library: str, number: int) -> torch.device:
    """Where a tensor of PyTorch's own is, for that device of late_tensors()."""
    on_gpu = library == NO_LIBRARY and number != MAIN_MEMORY
    return torch.device("cuda", number) if on_gpu else torch.device("cpu")


def choose_gpu() -> int:
    """The rank's own, by number; after hvd.init(). NCCL refuses two ranks of a host on one GPU; so
    where there are fewer GPUs than ranks, each rank says that it is a host, and they exchange data
    over sockets."""
    gpus = torch.cuda.device_count()
    if hvd.local_size() > gpus:
        os.environ.update(NCCL_HOSTID=f"rank-{hvd.rank()}", NCCL_SOCKET_IFNAME="lo")
    torch.cuda.set_device(hvd.local_rank() % gpus)
    return torch.cuda.current_device()
