"""Tensors on a GPU and in main memory, planned and negotiated, in one job. In some jobs the last
rank is killed in the middle of a step, and the others report what they got.

Arguments: library of late tensors, steps, the step in which the last rank dies (-1: it does not).
"""

from __future__ import annotations

import sys

import horovod.torch as hvd
import torch
from common import RANK, graph_plans, report, report_in_any_case
from late_gradients import NO_LIBRARY, choose_gpu, device_of, late_tensors
from late_tensors import MAIN_MEMORY

ELEMENTS, LATE_US = (800, 1200, 1600, 2000), (500,) * 4

library, steps, end = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


def mixture(gpu: int) -> list:
    """By turns on both devices, all on the GPU, all in main memory."""
    of_both = [gpu, MAIN_MEMORY] * 2
    buckets = ((0, 2), (1, 3))
    return [late_tensors(library, ELEMENTS, LATE_US, devices, buckets, first_key=1 + 10 * number)
            for number, devices in enumerate((of_both, [gpu] * 4, [MAIN_MEMORY] * 4))]


def wrong_sums(step: int, kinds: list, devices: list[torch.device]) -> int:
    mine, total = step * (1 + RANK), step * sum(range(1, 1 + hvd.size()))
    wrong = 0
    for kind in kinds:
        dies = step == end and RANK == hvd.size() - 1 and kind is kinds[-1]
        sums = kind.sums([torch.full((elements,), float(mine)) for elements in ELEMENTS],
                         dies_after=2 if dies else -1)
        wrong += sum(bool((tensor != total).any()) for tensor in sums)
    for device in devices:  # of another size in each step: negotiated
        value = torch.full((1 + step,), float(mine), device=device)
        tensor = hvd.allreduce(value, name=f"negotiated.{device.type}", op=hvd.Sum)
        wrong += bool((tensor != total).any())
    return wrong


report_in_any_case()
torch.set_num_threads(1)
hvd.init()
gpu = choose_gpu() if library == NO_LIBRARY else 0
kinds = mixture(gpu)
where = [device_of(library, number) for number in (gpu, MAIN_MEMORY)]
step, wrong, outcome = 0, 0, "no error"
try:
    for step in range(1, steps + 1):
        wrong += wrong_sums(step, kinds, where)
except Exception as error:
    outcome = str(error)
    raise
finally:
    report(step=step, wrong=wrong, outcome=outcome,
           states=[plan.state for plan in graph_plans()])
hvd.shutdown()
