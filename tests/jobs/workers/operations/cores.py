"""In each mode, the CPUs of the background thread and of all others, before, during and after."""

import os
import sys
import threading

import horovod.torch as hvd
import torch
from common import graph_plans, report, running, start_mpi, wait_until
from horovod.torch.mpi_ops import _basics


def masks() -> dict[str, list]:
    """CPUs by thread: of hvd-background and those it started (hvd-...), and of the others."""
    cpus_by_kind = {"background": [], "rest": []}
    for tid in map(int, os.listdir("/proc/self/task")):
        try:
            with open(f"/proc/self/task/{tid}/comm") as file:
                kind = "background" if file.read().startswith("hvd-") else "rest"
            cpus = sorted(os.sched_getaffinity(tid))
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread of an import that has ended meanwhile
        cpus_by_kind[kind].append(cpus)
    return cpus_by_kind


def of_a_new_thread() -> list[int]:
    cpus = []
    thread = threading.Thread(target=lambda: cpus.extend(sorted(os.sched_getaffinity(0))))
    thread.start()
    thread.join()
    return cpus


def train() -> list[float]:
    """One weight, whose loss falls with every step."""
    weight = torch.nn.Parameter(torch.tensor([8.0]))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=[("weight", weight)])
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (weight**2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


results = {}
start_mpi(_basics.MPI_LIB_CTYPES)
for mode in sys.argv[2:]:
    name, _, core = mode.partition(",")
    environment = {"HOROVOD_OPT_SCP_CORE": core} if core else {}
    before = masks()
    with running(hvd, name, **environment):
        losses = train()
        during, new = masks(), of_a_new_thread()
        states = [plan.state for plan in graph_plans()]
        hvd.barrier()  # the first that shuts down ends the background thread of all
    # One that has ended may still be listed for a moment.
    wait_until(lambda: not masks()["background"], "no thread of Horovod's is left")
    results[mode] = {
        "before": before,
        "during": during,
        "new": new,
        "losses": losses,
        "states": states,
        "after": masks(),
        "new_after": of_a_new_thread(),
    }
report(**results)
