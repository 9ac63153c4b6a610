"""Each rank is a node of its own, and nodes keep what they read.

FOLDER DATA FRAMEWORK STATE STOP: goes on from the file STATE, if it is there, to the end of epoch
2, or for STOP batches, unless that is 0; then rank 0 saves the state.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from pathlib import Path

from common import RANK, report

import horovod_opt
import horovod_opt.io as hio
from horovod_opt.io.batch import info_of
from horovod_opt.io.job import communication
from horovod_opt.io.node_reader import reader_process

DATA, FRAMEWORK, STATE, STOP = sys.argv[2], sys.argv[3], Path(sys.argv[4]), int(sys.argv[5])
EPOCHS, BATCH = 3, 16

# What these few files have is in the page cache, where a node would leave it.
reader_process.LEAVE_CACHED = False
hvd = importlib.import_module(f"horovod.{FRAMEWORK}")
hvd.init()
ranks = dataclasses.replace(communication.find(), place=f"node {RANK}")


def one_pass(data):
    """Of one epoch, or what is left of it: the numbers that a batch's records begin with, and what
    it says of itself."""
    if FRAMEWORK == "torch":
        return ((batch.tolist(), info) for batch, info in loop)
    return (([int.from_bytes(record[:4], "little") for record in batch.numpy()], info)
            for batch, info in loop)


with hio.open(f"{DATA}/train-*.tfrecord", seed=1, chunk_samples=8, cache="1MiB",
              ranks=ranks) as data:
    if STATE.exists():
        data.load_state_dict(json.loads(STATE.read_text()))
    if FRAMEWORK == "torch":
        loop = hio.torch.loader(data, BATCH, with_info=True,
                                decode=lambda sample: int.from_bytes(sample.data[:4], "little"))
    else:
        loop = hio.tensorflow.dataset(data, BATCH, with_info=True)
    steps = []
    while data.epoch < EPOCHS and not 0 < STOP == len(steps):
        for numbers, info in one_pass(data):
            data.taken(info)
            steps.append((int(info_of(info).epoch), numbers))
            if len(steps) == STOP:
                break
    ranks.allgather(b"")  # nobody closes what others still read
    if RANK == 0:
        STATE.write_text(json.dumps(data.state_dict()))
    read = data.stats()
    counted = horovod_opt.stats()
    ranks.allgather(b"")
hvd.shutdown()
report(steps=steps, read=read, kept=counted.input_kept_bytes)
