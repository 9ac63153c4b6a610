"""A rank of a trial of the input side: takes batches, in step with the others, until it is killed.

FOLDER PATTERN SETTINGS STATE: SETTINGS is JSON: options of open and loader, `epochs`, `save_every`
so many steps, `step_seconds`, and `loops`, as input_trials.Loops has them, with a `seed`. STATE is
a file; rank 0 writes it after some of the steps, when all have said what they took in them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from input_job import RANK, say, start

import horovod_opt.io as hio

pattern, settings, state_file = sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
loops = settings["loops"]
# Epoch, start, end, numbers of samples, and what TensorFlow has of them.
Step = tuple[int, int, int, list[int], Any]


def number(sample: hio.Sample) -> int:
    return int.from_bytes(sample.data[:4], "little")


def save(state: dict) -> None:
    with open(f"{state_file}.part", "w") as file:
        json.dump(state, file)
    os.replace(f"{state_file}.part", state_file)


def make(data: hio.Data) -> Any:
    options = dict(settings["loader"])
    if loops["reads_by"] == "loader":
        return hio.torch.loader(data, decode=number, with_info=True, **options)
    workers = options.pop("workers")
    if loops["reads_by"] == "sampler":
        return torch.utils.data.DataLoader(
            hio.torch.Dataset(data, number), num_workers=workers, collate_fn=list,
            batch_sampler=hio.torch.BatchSampler(data, **options))
    return hio.tensorflow.dataset(data, with_info=True, **options).prefetch(2)


def steps_of(data: hio.Data, loader: Any) -> Iterator[Step]:
    """One loop over it."""
    if loops["reads_by"] == "loader":
        for batch, info in loader:
            yield info.epoch, info.start, info.end, batch.tolist(), None
    elif loops["reads_by"] == "tensorflow":
        for records, info in loader:
            place = (int(info[name]) for name in ("epoch", "start", "end"))
            yield (*place, [int.from_bytes(record[:4], "little") for record in records.numpy()],
                   info)
    else:
        epoch, begin = data.epoch, data.position if data.is_resumed else 0
        for batch in loader:
            end = data.position or len(data)
            yield epoch, begin, end, batch, None
            begin = end


def look(data: hio.Data, loader: Any) -> None:
    """At one batch, which does not count."""
    state = data.state_dict()
    next(steps_of(data, loader), None)
    data.load_state_dict(state)


def disagree(data: hio.Data, loader: Any) -> None:
    """Rank 0 alone loads a state, of another place."""
    state = data.state_dict()
    if RANK == 0:
        other = len(data) // 2 if state["position"] != len(data) // 2 else 1
        data.load_state_dict({**state, "position": other})
    if torch.distributed.get_world_size() > 1:
        try:
            next(steps_of(data, loader), None)
            raise AssertionError("ranks at different places begin a loop")
        except Exception as error:  # TensorFlow's has its text
            if "the place in the data differs" not in str(error):
                raise
    data.load_state_dict(state)


def train(data: hio.Data, random: Random) -> None:
    loader, epoch = make(data), data.epoch
    while epoch < settings["epochs"]:
        if loops["anew"]:
            loader = make(data)
        if loops["looks"] and random.random() < 0.5:
            look(data, loader)
        if loops["disagrees"] and random.random() < 0.5:
            disagree(data, loader)
        leaves_after = random.randint(1, 12) if loops["leaves"] else 0
        step = info = None
        for count, (epoch, begin, end, numbers, info) in enumerate(steps_of(data, loader), 1):
            say(epoch=epoch, start=begin, end=end, numbers=numbers)
            torch.distributed.all_reduce(torch.ones(1))  # as gradients in training
            step, is_told = count, info is None or count % loops["every"] == 0
            if info is not None and is_told:
                data.taken(info)
            if RANK == 0 and is_told and count % settings["save_every"] == 0:
                save(data.state_dict())
            time.sleep(settings["step_seconds"])
            if count == leaves_after:
                if info is not None:
                    data.taken(info)
                break
        is_over = step is None or end >= len(data)
        epoch += is_over
        if not is_over:
            data.load_state_dict(data.state_dict())
        elif info is not None and (loops["looks"] or loops["disagrees"]
                                   or epoch == settings["epochs"]):
            data.taken(info)  # else the next loop, of whichever loader, tells it
    torch.distributed.barrier()
    if RANK == 0:
        save(data.state_dict())


start("torch")
with hio.open(pattern, **settings["open"]) as data:
    place = (0, 0)
    if os.path.exists(state_file):
        with open(state_file) as file:
            data.load_state_dict(json.load(file))
        place = data.epoch, data.position
    train(data, Random(f"{settings['seed']} {place}"))
torch.distributed.barrier()
torch.distributed.destroy_process_group()
