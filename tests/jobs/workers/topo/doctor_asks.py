"""Rank 1 is late and asks `horovod-opt doctor --pid` meanwhile what the others wait for.

Arguments: modes, topo@1 as if each rank had a node of its own. Horovod starts anew for each.
"""

import contextlib
import ctypes
import faulthandler
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import horovod.torch as hvd
import torch
from common import FOLDER, RANK, meet, report, running, start_mpi, touch, wait_for_ranks, wait_until
from horovod.torch.mpi_ops import _basics

WARM_UP = 8  # calls, until one that recurs is planned
LATE = 1
DOCTOR = Path(sys.executable).with_name("horovod-opt")


def pid_of(rank: int) -> int:
    return int((FOLDER / f"pid.{rank}").read_text())


def ask(*pids: int) -> dict:
    """Before this rank calls what the other waits for."""
    text = subprocess.run([DOCTOR, "doctor", "--json", "--pid", *map(str, pids)],
                          stdout=subprocess.PIPE, text=True, check=False).stdout
    return json.loads(text)


def ask_until(waits: str, *pids: int) -> dict:
    """Until some rank waits for it."""
    answers = []

    def is_told() -> bool:
        answers.append(ask(*pids))
        return f"waits for 'allreduce.{waits}'" in str(answers[-1])

    wait_until(is_told, f"the doctor says that a rank waits for {waits}")
    return answers[-1]


def total(name: str) -> float:
    return hvd.allreduce(torch.ones(4), name=name, op=hvd.Sum)[0].item()


def late(name: str, *pids: int) -> dict | None:
    """Rank 0 waits for rank 1, which asks."""
    answer = ask_until(name, *pids) if RANK == LATE else None
    assert total(name) == 2
    return answer


def stopped(name: str) -> dict | None:
    """Rank 0 waits, and then is stopped."""
    answer = None
    if RANK == LATE:
        ask_until(name, pid_of(0))
        os.kill(pid_of(0), signal.SIGSTOP)
        wait_until(lambda: "stopped" in str(ask(pid_of(0))), "the doctor says that it is stopped")
        answer = ask(pid_of(0))
        os.kill(pid_of(0), signal.SIGCONT)
    assert total(name) == 2
    return answer


def with_the_lock(name: str) -> dict | None:
    """Rank 0 has Python's lock and sleeps, while another thread of it waits for rank 1."""
    fifo = FOLDER / f"fifo {name}"
    if RANK == LATE:
        wait_until(fifo.exists, "the fifo")
        answer = ask_until(name, pid_of(0))
        os.close(os.open(fifo, os.O_WRONLY))
        assert total(name) == 2
        return answer
    handle = hvd.allreduce_async(torch.ones(4), name=name, op=hvd.Sum)
    os.mkfifo(fifo)
    # PyDLL keeps the lock while it opens, which waits for the other end.
    descriptor = ctypes.PyDLL(None).open(str(fifo).encode(), os.O_RDONLY)
    os.close(descriptor)
    assert hvd.synchronize(handle)[0].item() == 2
    return None


@contextlib.contextmanager
def child():
    """A process forked from a rank while Horovod runs."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def life(mode: str) -> dict:
    answers = {}
    with running(hvd, mode):
        answers["new"] = late(f"{mode}.new", pid_of(0))
        for _ in range(WARM_UP):
            total(f"{mode}.again")
        answers["again"] = late(f"{mode}.again", pid_of(1))
        answers["lock"] = with_the_lock(f"{mode}.lock")
        answers["stopped"] = stopped(f"{mode}.stopped")
        with child() as forked:
            answers["child"] = ask(forked) if RANK == LATE else None
            total(f"{mode}.child")
    meet(f"{mode} is over")
    answers["over"] = ask(pid_of(0)) if RANK == LATE else None
    meet(f"{mode} has asked")
    return answers


faulthandler.dump_traceback_later(150)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
(FOLDER / f"pid.{RANK}").write_text(str(os.getpid()))
touch("named")
wait_for_ranks("named", (0, 1))
report(pids=[pid_of(0), pid_of(1)], answers={mode: life(mode) for mode in sys.argv[2:]})
