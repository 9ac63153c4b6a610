"""Process sets of PyTorch: calls that recur, an optimizer, a set that goes and one that comes.

Reports what was wrong (nothing), how many rounds of negotiation the last steps asked for, which
plans the sets had, and how many memories this rank shared with others before and after the first.
"""

from __future__ import annotations

import faulthandler
import resource
from pathlib import Path

import horovod.torch as hvd
import torch
from common import RANK, meet, report, running, start_mpi
from horovod.torch.mpi_ops import _basics

import horovod_opt

STEPS = 30
FEW = 3  # after so many steps no call has recurred often enough
LEARNED = 12  # in any step after it, everything is planned
UNNAMED_LEARNED = 16  # the same of calls without a name


def numbers(step: int, size: int, rank: int = RANK) -> torch.Tensor:
    """Whole and small, so that sums are exact."""
    return torch.arange(size, dtype=torch.float32) % 50 + 3 * rank + step


def total(step: int, size: int, ranks: list[int]) -> torch.Tensor:
    return sum(numbers(step, size, rank) for rank in ranks)


def rows(step: int, rank: int) -> int:
    return (step + rank) % 4


def calls(step: int, process_set: hvd.ProcessSet) -> dict[str, tuple]:
    """One of each kind, under the same names in all sets."""
    ranks, within = process_set.ranks, {"process_set": process_set}
    index, last = ranks.index(RANK), ranks[-1]
    parts = torch.tensor_split(total(step, 14, ranks).reshape(7, 2), len(ranks))
    group = hvd.grouped_allreduce(
        [numbers(step, size) for size in (3, 900, 5)], op=hvd.Sum, name="group", **within)
    gathered = torch.cat([numbers(step, rows(step, rank), rank) for rank in ranks])
    return {
        "sum": (hvd.allreduce(numbers(step, 6), op=hvd.Sum, name="sum", **within),
                total(step, 6, ranks)),
        "average": (hvd.allreduce(numbers(step, 6), name="average", **within),
                    total(step, 6, ranks) / len(ranks)),
        **{f"group {part.numel()}": (part, total(step, part.numel(), ranks)) for part in group},
        "gathered": (hvd.allgather(numbers(step, rows(step, RANK)), name="gathered", **within),
                     gathered),
        "broadcast": (hvd.broadcast(numbers(step, 7), last, name="broadcast", **within),
                      numbers(step, 7, last)),
        "part": (hvd.reducescatter(numbers(step, 14).reshape(7, 2), op=hvd.Sum, name="part",
                                   **within), parts[index]),
    }


def one_step(step: int, process_sets: list[hvd.ProcessSet]) -> list[str]:
    return [f"step {step}, {process_set.ranks}, {name}: {tensor.tolist()[:9]}, "
            f"not {expected.tolist()[:9]}"
            for process_set in process_sets if process_set.included()
            for name, (tensor, expected) in calls(step, process_set).items()
            if tensor.shape != expected.shape or not torch.equal(tensor, expected)]


def trained(process_set: hvd.ProcessSet) -> list[str]:
    """The gradient of rank r is r + 1 everywhere; the ranks of the set take the mean."""
    if not process_set.included():
        return []
    model = torch.nn.Linear(3, 2)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(),
        process_set=process_set)
    for _ in range(STEPS):
        optimizer.zero_grad()
        ((RANK + 1) * model(torch.ones(1, 3))).sum().backward()
        optimizer.step()
    ranks = process_set.ranks
    expected = -STEPS * (sum(ranks) + len(ranks)) / len(ranks)
    plans[0].extend(plan.state for plan in horovod_opt.plans()
                    if "DistributedOptimizer" in plan.name and plan.process_set)
    return [f"trained in {ranks}: {parameter.tolist()}, not {expected}"
            for parameter in model.parameters()
            if not torch.equal(parameter.detach(), torch.full(parameter.shape, expected))]


def mismatch(process_set: hvd.ProcessSet) -> str:
    """The last rank of the set sends more."""
    if not process_set.included():
        return ""
    try:
        hvd.allreduce(numbers(0, 8 if process_set.ranks[-1] == RANK else 6), op=hvd.Sum, name="sum",
                      process_set=process_set)
    except hvd.HorovodInternalError as error:
        return str(error)
    return "no error"


def after_removal(process_set: hvd.ProcessSet) -> list[str]:
    """Its number is given to the next one, which has none of its plans."""
    before = process_set.process_set_id
    hvd.remove_process_set(process_set)
    again = hvd.add_process_set(process_set.ranks)
    plans_left = [plan for plan in horovod_opt.plans() if plan.process_set == before]
    problems = [f"{len(plans_left)} plans of a process set that is gone"] if plans_left else []
    if again.process_set_id != before:
        problems.append(f"process set {again.process_set_id}, not {before}")
    for step in range(STEPS):
        problems += one_step(step, [again])
    return problems


def without_memory(process_set: hvd.ProcessSet) -> tuple[list[str], list[str]]:
    """Its first rank cannot make any when the first call recurs. What is wrong; states of plans."""
    if not process_set.included():
        return [], []
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if process_set.ranks[0] == RANK:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    problems = [problem for step in range(LEARNED) for problem in one_step(step, [process_set])]
    problems += trained(process_set)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    return problems, [plan.state for plan in horovod_opt.plans()
                      if plan.process_set == process_set.process_set_id]


def unnamed_step(step: int, process_set: hvd.ProcessSet) -> list[str]:
    """Calls without a name, of the set and of all ranks in turn. Names have the number of a rank's
    calls, so ranks of a set make equally many."""
    ranks, within = process_set.ranks, {"process_set": process_set}
    everyone = list(range(hvd.size()))
    handles = [hvd.allreduce_async(numbers(step, 6), op=hvd.Sum, **within),
               hvd.allreduce_async(numbers(step, 5), op=hvd.Sum),
               hvd.allreduce_async(numbers(step + 1, 6), op=hvd.Sum, **within)]
    expected = [total(step, 6, ranks), total(step, 5, everyone), total(step + 1, 6, ranks)]
    results = [hvd.synchronize(handle) for handle in handles]
    results.append(hvd.allgather(numbers(step, rows(step, RANK)), **within))
    expected.append(torch.cat([numbers(step, rows(step, rank), rank) for rank in ranks]))
    results += hvd.grouped_allreduce([numbers(step, size) for size in (3, 5)], op=hvd.Sum, **within)
    expected += [total(step, size, ranks) for size in (3, 5)]
    results.append(hvd.broadcast(numbers(step, 7), ranks[-1], **within))
    expected.append(numbers(step, 7, ranks[-1]))
    own = numbers(step, 4).requires_grad_()
    hvd.allgather(own, **within).sum().backward()
    results.append(own.grad)
    expected.append(torch.ones(4))
    return [f"step {step}, without a name, {i} in {ranks}: {result.tolist()}, not {right.tolist()}"
            for i, (result, right) in enumerate(zip(results, expected, strict=True))
            if not torch.equal(result, right)]


def unnamed_calls() -> dict[str, object]:
    """In sets that have no rank in common."""
    last = hvd.size() - 1
    sets = [hvd.add_process_set(ranks) for ranks in ([0, last], list(range(1, last)))]
    own = sets[0 < RANK < last]
    wrong, before = [], 0
    for step in range(STEPS):
        if step == UNNAMED_LEARNED:
            settle()
            before = horovod_opt.stats().requested_rounds
        wrong += unnamed_step(step, own)
    rounds = horovod_opt.stats().requested_rounds - before
    meet("unnamed rounds")
    states = sorted({plan.state for plan in horovod_opt.plans()
                     if "noname" in plan.name and plan.process_set == own.process_set_id})
    error = ""
    try:  # the last rank of the set sends more
        hvd.allreduce(numbers(0, 8 if own.ranks[-1] == RANK else 6), op=hvd.Sum, process_set=own)
    except hvd.HorovodInternalError as mismatch:
        error = str(mismatch)
    wrong += unnamed_step(STEPS, own)
    hvd.barrier()  # a rank that shuts down would end what the others still do
    return {"wrong": wrong, "rounds": rounds, "states": states, "error": error,
            "ranks": own.ranks}


def memories() -> int:
    maps = Path("/proc/self/maps").read_text().splitlines()
    return sum("memfd:horovod-opt" in line for line in maps)


def settle() -> None:
    """Whatever a rank has asked for is done in these rounds, or leads to one of the next."""
    for time in range(3):
        hvd.allreduce(torch.zeros(1), name=f"settle {time}")


faulthandler.dump_traceback_later(150)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
plans: list[list[str]] = [[]]
unnamed = {}
for memory in "1", "0":
    with running(hvd, "topo", HOROVOD_OPT_VERIFY="1", HOROVOD_DYNAMIC_PROCESS_SETS="1",
                 HOROVOD_OPT_SHARED_MEMORY=memory):
        unnamed[memory] = unnamed_calls()
with running(hvd, "topo", HOROVOD_OPT_VERIFY="1", HOROVOD_DYNAMIC_PROCESS_SETS="1"):
    last = hvd.size() - 1
    # They overlap; one is of a single rank.
    sets = [hvd.add_process_set(list(ranks))
            for ranks in (range(1), range(last), range(1, last + 1))]
    problems, before, shared = [], 0, []
    for step in range(STEPS):
        if step in (FEW, LEARNED):
            shared.append(memories())
        if step == LEARNED:
            settle()
            before = horovod_opt.stats().requested_rounds
        problems += one_step(step, [hvd.global_process_set, *sets])
    rounds = horovod_opt.stats().requested_rounds - before
    meet("rounds")  # every rank has read it, before any asks for a round
    calls_planned = {plan.process_set: 0 for plan in horovod_opt.plans()}
    for plan in horovod_opt.plans():
        calls_planned[plan.process_set] += plan.state == "active"
    problems += trained(sets[1])
    error = mismatch(sets[2])
    problems += one_step(STEPS, [hvd.global_process_set, *sets])
    hvd.barrier()
    problems += after_removal(sets[1])
    hvd.barrier()
    optimizers = list(plans[0])
    more_problems, poor = without_memory(hvd.add_process_set([0, last]))
    hvd.barrier()
report(wrong=problems + more_problems, rounds=rounds, planned=sorted(calls_planned.items()),
       unnamed=unnamed, optimizers=optimizers, poor=poor, error=error, memories=shared,
       sets=[process_set.ranks for process_set in sets])
