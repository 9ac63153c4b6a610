"""A rank of a job, as a process in a network namespace of its own: takes batches, says which, and
where it is."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
import time
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import NamedTuple, Optional

import horovod_opt.io as hio
from horovod_opt.io.decoder import read_step
from horovod_opt.io.job.communication import Communication
from horovod_opt.io.node_reader import reader_process
from horovod_opt.io.step_source import StepSource

CLONE_NEWNET = 0x40000000
PORT, PATIENCE = 29876, 60  # s


class Job(NamedTuple):
    """`addresses` of the nodes, a rank on each; it ends with the end of epoch number `epochs`.
    Files come to `folder`: `state` after each step, and what each rank takes and counts."""

    addresses: list[str]
    pattern: str
    options: dict
    batch: dict
    epochs: int
    folder: Path
    state: Optional[dict] = None
    attempt: int = 0


class Meeting:
    """Ranks that meet at the first one's address. A rank that is gone is an error."""

    def __init__(self, job: Job, rank: int):
        self._rank, place = rank, (job.addresses[0], PORT + job.attempt)
        if rank == 0:
            with Listener(place, backlog=len(job.addresses)) as listener:
                others = [listener.accept() for _ in job.addresses[1:]]
            self._others = dict(sorted((other.recv(), other) for other in others))
            return
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._first = Client(place)
                break
            except ConnectionRefusedError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
        self._first.send(rank)

    def allgather(self, data: bytes) -> list[bytes]:
        if self._rank:
            self._first.send_bytes(data)
            return self._first.recv()
        rows = [data, *(other.recv_bytes() for other in self._others.values())]
        for other in self._others.values():
            other.send(rows)
        return rows


def content(number: int) -> bytes:
    """Of a record: its number, and what nobody else has."""
    return (number.to_bytes(4, "little") + hashlib.sha256(str(number).encode()).digest()) * (
        3 + number * 37 % 400 * 3)


def check(record: bytes, label: int = 0) -> int:
    """Its number. Raises AssertionError if it has others' bytes."""
    number = int.from_bytes(record[:4], "little")
    assert record == content(number), f"sample {number} has other bytes"
    return number


def run_rank(job: Job, rank: int, process_of_node: int) -> None:
    """In a forked process, whose end it is. Exit status 0: it has come to the end of the job."""
    status = 1
    try:
        log = open(job.folder / f"log.{job.attempt}.{rank}", "w")
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        with open(f"/proc/{process_of_node}/ns/net") as space:
            if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        os.environ["HOROVOD_GLOO_IFACE"] = "eth0"
        reader_process.LEAVE_CACHED = False  # so that what is read counts
        _take(job, rank)
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _take(job: Job, rank: int) -> None:
    meeting = Meeting(job, rank)
    ranks = Communication(rank, len(job.addresses), meeting.allgather, place=f"node {rank}")
    received = _received()
    times = []
    with hio.open(job.pattern, ranks=ranks, **job.options) as data, open(
            job.folder / f"taken.{job.attempt}.{rank}", "w") as taken:
        if job.state is not None:
            data.load_state_dict(job.state)
        source = StepSource(data, **{"batch_size": None, "global_batch_size": None,
                                     "last": "spread", **job.batch},
                            epochs=job.epochs - data.epoch)
        while data.epoch < job.epochs:
            begin = time.monotonic()
            for step in source.samples(source.begin()):
                records = read_step(data, source.member, step, True).samples.plain()
                numbers = [check(*record) if isinstance(record, tuple) else check(record)
                           for record in records]
                info = step.info
                print(json.dumps([info.epoch, info.start, info.end, numbers]), file=taken,
                      flush=True)
                data.advance(info.epoch, info.end)
                meeting.allgather(b"a step")  # as training would
                if rank == 0:
                    _replace(job.folder / "state", data.state_dict())
            times.append(time.monotonic() - begin)
        meeting.allgather(b"through")
        stats = data.stats()
        meeting.allgather(b"counted")  # only then does anybody end
    _replace(job.folder / f"stats.{rank}", {**stats, "received": _received() - received,
                                            "times": times})


def _replace(path: Path, value: dict) -> None:
    new = path.with_name(f".{path.name}")
    new.write_text(json.dumps(value))
    os.replace(new, path)


def _received() -> int:
    """Bytes of this node's link."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "eth0":
            return int(counts.split()[0])
    return 0
