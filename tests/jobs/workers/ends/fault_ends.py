"""One fault that ends its rank, the launcher or the network; the others report what they got."""

import faulthandler
import math
import os
import signal
import subprocess
import sys

import horovod.torch as hvd
import psutil
import torch
from common import meet, report, report_in_any_case
from fault_common import STEPS, fail, train


def leave() -> None:
    sys.exit(3)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def horovodrun() -> psutil.Process:
    """The first process of the job; under MPI it has become mpirun."""
    process = psutil.Process()
    while "PARALLEL_TEST_JOB" in process.parent().environ():
        process = process.parent()
    return process


def kill_horovodrun() -> None:
    horovodrun().kill()


def end_horovodrun() -> None:
    horovodrun().terminate()


def cut_network() -> None:
    subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)


RANK_ENDS = {"exit": leave, "raise": fail, "kill": be_killed}
OTHERS_END = {
    "kill horovodrun": kill_horovodrun,
    "end horovodrun": end_horovodrun,
    "network": cut_network,
}

faulthandler.dump_traceback_later(100)
torch.set_num_threads(1)
how = sys.argv[2]
if how in RANK_ENDS:
    report_in_any_case()
meet("start")  # Gloo may be told not to wait long for a rank that still imports
hvd.init()
outcome = train(how, {**RANK_ENDS, **OTHERS_END}[how],
                steps=STEPS if how in RANK_ENDS else math.inf)
report(**outcome)
sys.exit(outcome["error"] or None)
