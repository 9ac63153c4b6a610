"""A rank of a trial of the input side: takes batches, in step with the others, until it is killed.

FOLDER SETTINGS STATE: SETTINGS is a file of JSON: the `data`, as input_model.DataSet has it, its
`folder`, arguments of open and loader, `epochs`, `save_every` so many steps, `epoch_seconds`, all
ranks' `batch`, and `loops`, as input_trials.Loops has them, with a `seed`. STATE is a file; rank 0
writes it after some of the steps, when all have said what they took in them. Each sample must be
what was stored.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch
from input_job import FOLDER, RANK, say, start
from input_model import LABEL, RECORD, TAR, DataSet

import horovod_opt.io as hio

settings, state_file = json.loads(Path(sys.argv[2]).read_text()), sys.argv[3]
loops, data_set, process = settings["loops"], DataSet(**settings["data"]), os.getpid()
taken = data_set.taken()
# Epoch, start, end, numbers of samples, and what TensorFlow has of them.
Step = tuple[int, int, int, list[int], Any]


def number(sample: hio.Sample) -> int:
    if os.getpid() != process:  # it ends with its rank from now on
        (FOLDER / f"worker-{os.getpid()}").touch()
    parts = dict(sample.parts)
    record = parts[RECORD if data_set.format == TAR else ""]
    found = int.from_bytes(record[:4], "little")
    data_set.check(found, sample.key, parts if data_set.format == TAR else {RECORD: record})
    if not data_set.weights and not data_set.shares:
        assert taken[sample.number] == found, f"sample {sample.number} is {found}"
    return found


def numbers_of(records: Any) -> list[int]:
    """Of a batch of TensorFlow, which has parts of tars in tensors of their own, and nothing where
    a sample lacks one."""
    columns = records if isinstance(records, dict) else {RECORD: records}
    rows = zip(*(column.numpy().tolist() for column in columns.values()))
    numbers = []
    for row in rows:
        parts = dict(zip(columns, row))
        found = int.from_bytes(parts[RECORD][:4], "little")
        if parts.get(LABEL) == b"":
            del parts[LABEL]
        data_set.check_parts(found, parts)
        numbers.append(found)
    return numbers


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
            # With last="mask" a rank may have nothing of the last step.
            numbers = [] if batch is None else batch.tolist()
            yield info.epoch, info.start, info.end, numbers, None
    elif loops["reads_by"] == "tensorflow":
        for records, info in loader:
            place = (int(info[name]) for name in ("epoch", "start", "end"))
            yield *place, numbers_of(records), info
    else:
        epoch = data.epoch
        begin = data.position if data.is_resumed or loops["batches"] else 0
        for batch in loader:
            end = data.position or len(data)
            yield epoch, begin, end, batch, None
            epoch, begin = (epoch, end) if end < len(data) else (epoch + 1, 0)


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
    step_seconds = settings["epoch_seconds"] * settings["batch"] / len(data)
    while epoch < settings["epochs"]:
        if loops["anew"]:
            loader = make(data)
        if loops["looks"] and random.random() < 0.5:
            look(data, loader)
        if loops["disagrees"] and random.random() < 0.5:
            disagree(data, loader)
        leaves_after = random.randint(1, 12) if loops["leaves"] else 0
        end = count = is_left = 0
        info = None
        for count, (at, begin, end, numbers, info) in enumerate(steps_of(data, loader), 1):
            say(epoch=at, start=begin, end=end, numbers=numbers)
            torch.distributed.all_reduce(torch.ones(1))  # as gradients in training
            epoch = at + (end >= len(data))
            is_left = count == leaves_after or loops["batches"] and epoch == settings["epochs"]
            is_told = info is None or count % loops["every"] == 0
            if info is not None and (is_told or is_left):
                data.taken(info)
            if RANK == 0 and is_told and count % settings["save_every"] == 0:
                save(data.state_dict())
            time.sleep(step_seconds)
            if is_left:
                break
        else:
            if info is not None and (loops["looks"] or loops["disagrees"]
                                     or epoch == settings["epochs"]):
                data.taken(info)  # else the next loop, of whichever loader, tells it
        assert count, f"a loop without a batch, in epoch {epoch}"
        # Who has said every k-th batch may have come to the end, as far as TensorFlow knows.
        may_be_all = info is not None and loops["every"] > 1
        if is_left and end < len(data) and (not loops["batches"] or may_be_all
                                            or random.random() < 0.5):
            data.load_state_dict(data.state_dict())
    torch.distributed.barrier()
    if RANK == 0:
        save(data.state_dict())


start("torch")
options = {**data_set.open_options(Path(settings["folder"])), **settings["open"]}
with hio.open(**options) as data:
    place = (0, 0)
    if os.path.exists(state_file):
        with open(state_file) as file:
            data.load_state_dict(json.load(file))
        place = data.epoch, data.position
    train(data, Random(f"{settings['seed']} {place}"))
torch.distributed.barrier()
torch.distributed.destroy_process_group()
