"""Trains elastically on files: a rank dies between two commits, a third rank comes, and goes again.

FOLDER DATA FRAMEWORK BATCH RANK HOST...: BATCH is the size of a batch for hio.*.loader, as JSON,
and perhaps `open`, options of hio.open; RANK dies; four hosts, of which the job has the first two
at first.
Each process notes the steps that it has committed; what it took after its last commit does not
count. Whoever is rank 0 then saves a version with what was committed, by a BurstBuffer.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator

from common import FOLDER

import horovod_opt.io as hio

PATTERN, FRAMEWORK = sys.argv[2:4]
BATCH, DIES, HOSTS = json.loads(sys.argv[4]), int(sys.argv[5]), sys.argv[6:]
COMMIT_EVERY, DEATH, GROWTH = 3, 7, 13
OF_THREE, OF_TWO_AGAIN = 9, 6  # steps that the job has to have before its last epoch ends
STEP_SECONDS = 0.05  # the launcher looks for hosts every second

hvd = importlib.import_module(f"horovod.{FRAMEWORK}")
hvd.init()
data = hio.open(PATTERN, seed=1, chunk_samples=8, elastic=True, **BATCH.pop("open", {}))
died = FOLDER / "died"
pending: list[dict] = []  # steps since the last commit
buffers: list[hio.BurstBuffer] = []  # of rank 0 one


def note(line: dict) -> None:
    with open(FOLDER / f"notes.{os.getpid()}", "a") as file:
        file.write(json.dumps(line) + "\n")


def change_hosts(number: int) -> None:
    """The job may have so many, of which one is no longer used once its rank has died."""
    part = FOLDER / "hosts.part"
    part.write_text("".join(f"{host}:1\n" for host in HOSTS[:number]))
    part.rename(FOLDER / "hosts")  # it is read at any time


def number(sample: hio.Sample) -> int:
    return int.from_bytes(sample.data[:4], "little")


def batches_of_torch() -> Iterator[tuple[list[int], hio.BatchInfo]]:
    """Of one epoch after the other."""
    loader = hio.torch.loader(data, **BATCH, decode=number, with_info=True)
    while True:
        for batch, info in loader:
            yield batch.tolist(), info


def batches_of_tensorflow() -> Iterator[tuple[list[int], hio.BatchInfo]]:
    from horovod_opt.io.batch import info_of

    dataset = hio.tensorflow.dataset(data, **BATCH, with_info=True).prefetch(4)
    while True:
        for records, info in dataset:
            numbers = [int.from_bytes(record[:4], "little") for record in records.numpy()]
            yield numbers, info_of(info)


def total(numbers: list[int]) -> int:
    """Where ranks meet, as they do for their gradients."""
    if FRAMEWORK == "torch":
        import torch

        return int(hvd.allreduce(torch.tensor(sum(numbers)), op=hvd.Sum, name="total"))
    import tensorflow as tf

    return int(hvd.allreduce(tf.constant(sum(numbers), tf.int64), op=hvd.Sum, name="total"))


def make_state():
    if FRAMEWORK == "torch":
        import torch

        return hvd.elastic.TorchState(torch.nn.Linear(2, 2), step=0, total=0, of_three=0, again=0)
    from horovod.common.elastic import ObjectState

    return ObjectState(hvd.broadcast_object, hvd.rank, step=0, total=0, of_three=0, again=0)


state = make_state()
hio.elastic.attach(state, data)


def prepare_step() -> None:
    """What happens to the job."""
    if state.step == DEATH and hvd.rank() == DIES and not died.exists():
        died.touch()
        change_hosts(3)
        os.kill(os.getpid(), signal.SIGKILL)
    if hvd.rank() == 0 and state.step == GROWTH:
        change_hosts(4)
    if hvd.rank() == 0 and state.of_three == OF_THREE:
        change_hosts(3)
    if state.step >= GROWTH:
        time.sleep(STEP_SECONDS)


def commit() -> None:
    try:
        state.commit()
    finally:  # it asks for other hosts after it has saved
        for line in pending:
            note(line)
        pending.clear()
        if hvd.rank() == 0:
            save_version()


def save_version() -> None:
    if not buffers:
        buffers.append(hio.BurstBuffer(FOLDER / "fast", FOLDER / "slow"))
    with buffers[0].save(state.step) as folder:
        if FRAMEWORK == "torch":
            import torch

            torch.save({"step": state.step, "model": state.model.state_dict()}, folder / "state.pt")
        else:
            import tensorflow as tf

            tf.train.Checkpoint(step=tf.Variable(state.step)).write(str(folder / "model"))


def restored_step() -> int:
    """Of the newest version, as another node sees it; its model is the state's."""
    buffers[0].close()
    with hio.BurstBuffer(FOLDER / "fast of another node", FOLDER / "slow") as buffer:
        folder = buffer.restore()
        if FRAMEWORK == "torch":
            import torch

            version = torch.load(folder / "state.pt")
            assert all(map(torch.equal, version["model"].values(),
                           state.model.state_dict().values()))
            return version["step"]
        import tensorflow as tf

        step = tf.Variable(0)
        tf.train.Checkpoint(step=step).read(str(folder / "model")).assert_consumed()
        return int(step)


@hvd.elastic.run
def train(state) -> None:
    pending.clear()
    batches = batches_of_torch() if FRAMEWORK == "torch" else batches_of_tensorflow()
    for numbers, info in batches:
        prepare_step()
        state.total += total(numbers)
        data.taken(info)
        state.step += 1
        state.of_three += hvd.size() == 3
        state.again += hvd.size() == 2 and state.of_three > 0
        pending.append({"rank": hvd.rank(), "ranks": hvd.size(), "epoch": info.epoch,
                        "start": info.start, "end": info.end, "weight": info.weight,
                        "numbers": numbers, "step": state.step})
        is_over = state.again >= OF_TWO_AGAIN and data.position == 0
        if state.step % COMMIT_EVERY == 0 or is_over:
            commit()
        if is_over:
            return


train(state)
if hvd.rank() == 0:
    (FOLDER / "restored").write_text(json.dumps([restored_step(), state.step]))
hosts = len(set(hvd.allgather_object(os.uname().nodename)))
note({"total": state.total, "state": data.state_dict(), "hosts": hosts})
hvd.shutdown()
