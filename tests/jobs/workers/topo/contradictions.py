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


def wrong(results: dict[str, tuple[torch.Tensor, int]], name: str) -> list[str]:
    return [f"{what} of {name}: {tensor.tolist()}" for what, (tensor, expected) in results.items()
            if not bool((tensor == float(expected)).all())]


def wrong_sets(pair: hvd.ProcessSet, name: str) -> list[str]:
    results = {"pair": (in_set(pair, name + " x"), 2)} if pair.included() else {}
    results["everywhere"] = (in_set(hvd.global_process_set, name + " x"), hvd.size())
    return wrong(results, name)


def wrong_gradients(name: str) -> list[str]:
    return wrong({"dense": (dense(name), hvd.size()),
                  "sparse": (sparse("sparse " + name)[:3], hvd.size())}, name)


def wrong_steps(pair: hvd.ProcessSet, name: str) -> list[str]:
    """All of it, as it has to be."""
    problems = []
    for _ in range(STEPS):
        problems += wrong_gradients(name) + wrong_sets(pair, name)
    return problems


def contradict(pair: hvd.ProcessSet, name: str) -> tuple[dict[str, str], list[str]]:
    """The last rank does something else; rank 0 comes a moment later than it has to. The errors,
    and what was wrong in the right calls at once after each: first those that a rank has just
    objected to, before its objection is answered."""
    last = hvd.size() - 1 == RANK
    if RANK == 0:
        time.sleep(0.7)
    sets = error_of(in_set, pair if last else hvd.global_process_set, name + " x")
    problems = wrong_sets(pair, name)
    sparse_on_one = error_of(*((sparse, "sparse " + name) if last else (dense, name)))
    problems += wrong_gradients(name)
    return {"sets": sets, "sparse on one": sparse_on_one}, problems


faulthandler.dump_traceback_later(150)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
with running(hvd, "topo", HOROVOD_DYNAMIC_PROCESS_SETS="1", HOROVOD_STALL_CHECK_TIME_SECONDS="1"):
    # The first rank that is not in it is in the global set only.
    pair = hvd.add_process_set([0, hvd.size() - 1])
    errors, problems = {}, []
    for when, name in (("first", "new"), ("planned", "known")):
        errors[when], wrong_then = contradict(pair, name)
        problems += wrong_then + wrong_steps(pair, "known")
    problems += wrong_steps(pair, "new")
report(errors=errors, wrong=problems)
