"""Ranks that wait for tensors that never meet: one name in two process sets, and a gradient that is
sparse on one rank only; in the first step, and after it was planned.

Reports the errors by case, and what was wrong in the steps that follow (nothing).
"""

from __future__ import annotations

import faulthandler
import time

import horovod.torch as hvd
import torch
from common import RANK, report, running, start_mpi
from horovod.torch.mpi_ops import _basics

STEPS = 12  # until everything is planned


def in_set(process_set: hvd.ProcessSet, name: str) -> torch.Tensor:
    return hvd.allreduce(torch.ones(6), op=hvd.Sum, name=name, process_set=process_set)


def dense(name: str) -> torch.Tensor:
    return hvd.allreduce(torch.ones(20, 3), op=hvd.Sum, name=name)


def sparse(name: str) -> torch.Tensor:
    """Ones in all of three rows."""
    gradient = torch.sparse_coo_tensor(torch.arange(3).reshape(1, 3), torch.ones(3, 3), (20, 3))
    return hvd.sparse_allreduce_async(gradient, name, hvd.Sum)().to_dense()


def error_of(call, *arguments) -> str:
    try:
        call(*arguments)
    except hvd.HorovodInternalError as error:
        return str(error)
    return "no error"


def wrong_steps(pair: hvd.ProcessSet, name: str) -> list[str]:
    """All of it, as it has to be."""
    found = []
    for step in range(STEPS):
        results = {"dense": (dense(name), float(hvd.size())),
                   "sparse": (sparse("sparse " + name)[:3], float(hvd.size())),
                   "everywhere": (in_set(hvd.global_process_set, name + " x"), float(hvd.size()))}
        if pair.included():
            results["pair"] = (in_set(pair, name + " x"), 2.0)
        found += [f"step {step}, {what} of {name}: {seen.tolist()}"
                  for what, (seen, expected) in results.items()
                  if not bool((seen == expected).all())]
    return found


def contradict(pair: hvd.ProcessSet, name: str) -> dict[str, str]:
    """The last rank does something else; rank 0 comes a moment later than it has to."""
    last = hvd.size() - 1 == RANK
    if RANK == 0:
        time.sleep(0.7)
    chosen = pair if last else hvd.global_process_set
    return {
        "sets": error_of(in_set, chosen, name + " x"),
        "sparse on one": error_of(*((sparse, "sparse " + name) if last else (dense, name))),
    }


faulthandler.dump_traceback_later(150)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
with running(hvd, "topo", HOROVOD_DYNAMIC_PROCESS_SETS="1", HOROVOD_STALL_CHECK_TIME_SECONDS="1"):
    # The first rank that is not in it is in the global set only.
    pair = hvd.add_process_set([0, hvd.size() - 1])
    errors = {"first": contradict(pair, "new")}
    found = wrong_steps(pair, "known")
    errors["planned"] = contradict(pair, "known")
    found += wrong_steps(pair, "known")
    found += wrong_steps(pair, "new")
report(errors=errors, wrong=found)
