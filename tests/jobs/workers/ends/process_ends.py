"""A rank that ends or forks in ways that pass by Python, with tensors on their way."""

import ctypes
import faulthandler
import os
import sys
import threading
import time

import horovod.torch as hvd
import torch
from common import FOLDER, RANK, graph_plans, report, report_in_any_case
from fault_common import train

CODE = 7
# Only a child that hangs lives so long.
LIFE_SECONDS = 60
libc = ctypes.CDLL(None)
outcome: dict = {}


def note() -> None:
    """For a rank that cannot report."""
    states = [plan.state for plan in graph_plans()]
    (FOLDER / f"leaves-{RANK}").write_text(str(states))


def leave() -> None:
    note()
    libc.exit(CODE)


def leave_in_a_thread() -> None:
    threading.Thread(target=leave).start()
    threading.Event().wait()


def leave_with_the_lock() -> None:
    """Like an extension that calls exit() and knows nothing of Python."""
    note()
    ctypes.PyDLL(None).exit(CODE)


def ask() -> None:
    """What a process that loads data may ask for, and what it may not."""
    assert hvd.rank() == hvd.size() - 1
    try:
        hvd.allreduce(torch.zeros(1), name="of a child")
    except hvd.HorovodInternalError:
        hvd.shutdown()
        os._exit(CODE)


CHILDREN = {
    "exit": lambda: libc.exit(CODE),
    "sys.exit": lambda: sys.exit(CODE),
    "shutdown": lambda: (hvd.shutdown(), os._exit(CODE)),
    "ask": ask,
}


def status_of(child: int) -> int | None:
    """The exit status, None if it had to be killed."""
    deadline = time.monotonic() + LIFE_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None


def fork() -> None:
    for name, act in CHILDREN.items():
        child = os.fork()
        if child == 0:
            act()
            os._exit(0)
        outcome[name] = status_of(child)


ACTS = {"exit": leave, "thread": leave_in_a_thread, "lock": leave_with_the_lock, "fork": fork}

faulthandler.enable()
torch.set_num_threads(1)
act = ACTS[sys.argv[2]]
if act != fork:
    report_in_any_case()
hvd.init()
outcome.update(train("training", act))
report(**outcome)
