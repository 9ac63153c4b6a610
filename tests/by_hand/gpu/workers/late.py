"""Tensors that are summed before their data is there: on GPUs, or in main memory with events that
are not CUDA's."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from late_tensors import MAIN_MEMORY, LateTensors

from horovod_opt.planning.planner import bucket_bytes

NO_LIBRARY = "-"


def make(library: str, elements: Sequence[int], late_us: Sequence[int], devices: Sequence[int],
         buckets: Sequence[Sequence[int]], first_key: int = 1):
    """With a method sums(). `late_us`: by tensor, after the one before it. `devices`: by tensor,
    numbers of GPUs or MAIN_MEMORY. `buckets`: of numbers of tensors; on GPUs they follow from
    HOROVOD_FUSION_THRESHOLD. Call it in mode topo or off, after hvd.init()."""
    if library == NO_LIBRARY:
        from late_gradients import LateGradients

        return LateGradients(elements, late_us, devices, first_key)
    since_call = [sum(late_us[:number + 1]) for number in range(len(late_us))]
    late = LateTensors(library, elements, since_call, devices, first_key)
    late.add_plan(buckets, bucket_bytes())
    return late


def device(library: str, number: int) -> torch.device:
    """Where a tensor of PyTorch's own is, for that device of make()."""
    on_gpu = library == NO_LIBRARY and number != MAIN_MEMORY
    return torch.device("cuda", number) if on_gpu else torch.device("cpu")
