"""More plans than can be active at a time, one after the other, used again, and dropped."""

import faulthandler
import gc
import os
import time

import horovod.torch as hvd
import torch
from common import report, running

import horovod_opt

OPTIMIZERS, TENSORS, STEPS = 90, 50, 4  # 4,500 buckets of one tensor


class Training:
    def __init__(self, number: int):
        self.name = f"{number}."
        self.weights = [torch.nn.Parameter(torch.zeros(2)) for _ in range(TENSORS)]
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(self.weights, lr=1.0), op=hvd.Sum,
            named_parameters=[(f"{self.name}{i}", w) for i, w in enumerate(self.weights)])
        self.steps = 0

    def step(self) -> None:
        self.optimizer.zero_grad()
        sum((i + 1) * weight.sum() for i, weight in enumerate(self.weights)).backward()
        self.optimizer.step()
        self.steps += 1

    def right(self) -> bool:
        return all(weight.tolist() == [-(i + 1.0) * self.steps * hvd.size()] * 2
                   for i, weight in enumerate(self.weights))


def states() -> dict[str, str]:
    """By the prefix of the first tensor's name."""
    return {plan.buckets[0][0].removeprefix("allreduce.").partition(".")[0] + ".": plan.state
            for plan in horovod_opt.plans()}


faulthandler.dump_traceback_later(140)
torch.set_num_threads(1)
os.environ.update(HOROVOD_FUSION_THRESHOLD="0", HOROVOD_CACHE_CAPACITY="8192")
with running(hvd, "topo"):
    all_of_them, active = [], 0
    for number in range(OPTIMIZERS):
        all_of_them.append(Training(number))
        for _ in range(STEPS):
            all_of_them[-1].step()
        active += states()[all_of_them[-1].name] == "active"
        time.sleep(0.03)
    before = states()
    first = all_of_them[0]
    for _ in range(STEPS):
        first.step()
    again = states()[first.name]
    right = [training.right() for training in all_of_them]
    del all_of_them, first
    gc.collect()
    for number in range(OPTIMIZERS, OPTIMIZERS + 2):
        last = Training(number)
        for _ in range(STEPS):
            last.step()
    report(active=active, before=sorted(before.values()), again=again, right=right,
           last=states()[last.name], plans=len(states()))
