"""Trains a small network elastically, from the newest version that was saved, to the end.

FOLDER FRAMEWORK DATA BATCH EPOCHS SECONDS: the batch of all ranks together, and how long a step
takes at least. What the weights have seen is part of the state, as are the place in the data and
the optimizer: how often each sample was trained, in this history of them. Rank 0 says how far the
training is in `progress`, and at the end what came of it in `result`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from common import FOLDER

import horovod_opt.io as hio

FRAMEWORK, DATA = sys.argv[2:4]
BATCH, EPOCHS, SECONDS = int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
COMMIT_EVERY, SAVE_EVERY = 3, 9

os.chdir(FOLDER)
(FOLDER / "workers").mkdir(exist_ok=True)
(FOLDER / "workers" / str(os.getpid())).write_text(os.environ["HOROVOD_HOSTNAME"])

network = importlib.import_module(f"resized_{FRAMEWORK}")
hvd = network.hvd


def write(name: str, content: object) -> None:
    """Whoever reads it finds all of it."""
    part = FOLDER / f"{name}.{os.getpid()}"
    part.write_text(json.dumps(content))
    part.rename(FOLDER / name)


def decoded(record: bytes) -> tuple[int, np.ndarray, int]:
    """Number, features, class."""
    return (int.from_bytes(record[:4], "little"), np.frombuffer(record[4:-1], np.float32),
            record[-1])


def save(buffer: hio.BurstBuffer) -> None:
    with buffer.save(state.step) as folder:
        network.save(folder / "weights")
        (folder / "rest.json").write_text(json.dumps(
            {"step": state.step, "seen": state.seen.tolist(), "data": data.state_dict()}))


def restore(buffer: hio.BurstBuffer) -> None:
    folder = buffer.restore()
    if folder is None:
        return
    network.load(folder / "weights")
    rest = json.loads((folder / "rest.json").read_text())
    state.step, state.seen = rest["step"], np.asarray(rest["seen"])
    data.load_state_dict(rest["data"])
    state.save()


hvd.init()
data = hio.open(DATA, seed=1, chunk_samples=8, elastic=True)
state = network.state(step=0, seen=np.zeros(len(data)))
hio.elastic.attach(state, data)
buffers: list[hio.BurstBuffer] = []  # of rank 0, one
seconds = {"all": 0.0, "commits": 0.0, "versions": 0.0}  # of this process's steps


def buffer_of_rank_0() -> hio.BurstBuffer:
    if not buffers:
        buffers.append(hio.BurstBuffer(FOLDER / "fast", FOLDER / "slow"))
    return buffers[0]


if hvd.rank() == 0:
    restore(buffer_of_rank_0())


def commit() -> None:
    began = time.monotonic()
    try:
        state.commit()
    finally:  # it asks for other hosts when it has saved
        committed = time.monotonic()
        seconds["commits"] += committed - began
        if hvd.rank() == 0 and state.step % SAVE_EVERY == 0:
            save(buffer_of_rank_0())
            seconds["versions"] += time.monotonic() - committed


@hvd.elastic.run
def train(state) -> None:
    while data.epoch < EPOCHS:
        for numbers, features, classes, info in network.batches(data, BATCH, decoded):
            began = time.monotonic()
            network.step(features, classes, info.end - info.start)
            seen = np.zeros(len(data))
            seen[numbers] += 1
            state.seen = state.seen + network.total(seen)
            state.step += 1
            data.taken(info)
            if state.step % COMMIT_EVERY == 0 or data.position == 0:
                commit()
            if hvd.rank() == 0:
                write("progress", [state.step, hvd.size()])
            time.sleep(max(0.0, SECONDS - (time.monotonic() - began)))
            seconds["all"] += time.monotonic() - began


train(state)
if hvd.rank() == 0:
    save(buffer_of_rank_0())
    buffer_of_rank_0().close()
    with Path(DATA).with_suffix(".json").open() as file:
        samples = json.load(file)
    write("result", {"step": state.step, "seen": state.seen.tolist(), "ranks": hvd.size(),
                     "seconds": seconds,
                     "loss": network.loss(np.asarray(samples["features"], np.float32),
                                          np.asarray(samples["classes"]))})
hvd.shutdown()
