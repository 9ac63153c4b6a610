"""A rank of a trial of the input side: takes batches, in step with the others, until it is killed.

FOLDER PATTERN SETTINGS STATE: SETTINGS is JSON: options of open and loader, `epochs`, `save_every`
so many steps, and `step_seconds`. STATE is a file; rank 0 writes it after some of the steps, when
all have said what they took in them.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
from input_job import RANK, say, start

import horovod_opt.io as hio

pattern, settings, state_file = sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]


def number(sample: hio.Sample) -> int:
    return int.from_bytes(sample.data[:4], "little")


def save(state: dict) -> None:
    with open(f"{state_file}.part", "w") as file:
        json.dump(state, file)
    os.replace(f"{state_file}.part", state_file)


def train(data: hio.Data, loader) -> None:
    while data.epoch < settings["epochs"]:
        for batch in loader:
            info = batch.info
            say(epoch=info.epoch, start=info.start, end=info.end, numbers=batch.tolist())
            torch.distributed.all_reduce(torch.ones(1))  # as gradients in training
            if RANK == 0 and info.step % settings["save_every"] == 0:
                save(data.state_dict())
            time.sleep(settings["step_seconds"])
    torch.distributed.barrier()
    if RANK == 0:
        save(data.state_dict())


start("torch")
with hio.open(pattern, **settings["open"]) as data:
    if os.path.exists(state_file):
        with open(state_file) as file:
            data.load_state_dict(json.load(file))
    train(data, hio.torch.loader(data, decode=number, **settings["loader"]))
torch.distributed.barrier()
torch.distributed.destroy_process_group()
