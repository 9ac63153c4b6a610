"""DistributedSampler and set_epoch: nothing. A loop is the next epoch; each rank has its samples.

    horovodrun -np 2 python examples/habits/dataloader/distributed_sampler.py

DistributedSampler pads with samples that come twice; here none does, and batches' weights make
every sample count alike when ranks average.
"""

import sys
from pathlib import Path

import horovod.torch as hvd
import torch

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars

with folder_of(hvd, write_tars) as folder:
    with hio.open(f"{folder}/*.tar", seed=1) as data:
        loader = hio.torch.loader(data, 7, decode=lambda sample: int(sample.key), with_info=True)
        orders = []
        for epoch in range(2):
            total, seen = torch.zeros(()), []
            for numbers, info in loader:
                assert info.epoch == epoch
                seen += numbers.tolist()
                # As gradients are averaged: then the step's mean, times the samples of the step.
                mean = hvd.allreduce(numbers.double().mean() * info.weight)
                total += mean * hvd.allreduce(torch.tensor(len(numbers)), op=hvd.Sum)
            assert gather(hvd, seen) == list(range(SAMPLES))
            assert round(float(total)) == sum(range(SAMPLES))
            orders.append(seen)
    assert orders[0] != orders[1]
    say(hvd, f"{SAMPLES} samples in each of two epochs, in other orders")
