"""Calls of PyTorch that recur in every step, named and unnamed, with the results that they must
have.

Reports what was wrong (nothing), how many rounds of negotiation the last steps asked for, and the
bits of sums of special values.
"""

from __future__ import annotations

import faulthandler

import horovod.torch as hvd
import special_values
import torch
import unnamed_calls
from common import RANK, meet, report, running, start_mpi
from horovod.torch.mpi_ops import _basics
from unnamed_calls import STEPS, take_steps

import horovod_opt

LEARNED = 12  # in any step after it, every call is planned
LARGE = 700_000  # rows of 4 bytes, more than one rank moves at a time


def numbers(step: int, size: int, rank: int = RANK) -> torch.Tensor:
    """Whole and small, so that sums are exact."""
    return torch.arange(size, dtype=torch.float32) % 50 + 3 * rank + step


def total(step: int, size: int) -> torch.Tensor:
    return sum(numbers(step, size, rank) for rank in range(hvd.size()))


def rows(step: int, rank: int) -> int:
    """Of a gathered tensor: another number in each step, once many; none on rank 1 in some."""
    if step == LEARNED + 3:
        return LARGE if rank == 0 else 5
    return 0 if rank == 1 and step >= LEARNED and step % 2 else 1 + (step + rank) % 4


def allreduces(step: int) -> dict[str, tuple]:
    """Also two under one name, in turn, as layers of one kind have."""
    results = {}
    for size in (4, 9, 4):
        results[f"sum {size}"] = (
            hvd.allreduce(numbers(step, size), op=hvd.Sum, name="shared"), total(step, size))
    results["average"] = (hvd.allreduce(numbers(step, 6), name="average"),
                          total(step, 6) / hvd.size())
    results["max"] = (hvd.allreduce(numbers(step, 6), op=hvd.Max, name="max"),
                      numbers(step, 6, hvd.size() - 1))
    results["scaled"] = (hvd.allreduce(numbers(step, 6), op=hvd.Sum, name="scaled",
                                       prescale_factor=0.5, postscale_factor=4.0),
                         2 * total(step, 6))
    results["ints"] = (hvd.allreduce(torch.tensor([step, RANK]), op=hvd.Sum, name="ints"),
                       torch.tensor([step * hvd.size(), sum(range(hvd.size()))]))
    return results


def allgathers(step: int) -> dict[str, tuple]:
    gathered = hvd.allgather(numbers(step, rows(step, RANK)).reshape(-1, 1), name="rows")
    expected = torch.cat([numbers(step, rows(step, rank), rank) for rank in range(hvd.size())])
    masks = [numbers(step, rows(step, rank), rank) % 2 == 0 for rank in range(hvd.size())]
    return {"mask": (hvd.allgather(masks[RANK], name="mask"), torch.cat(masks)),
            "rows": (gathered, expected.reshape(-1, 1)),
            "row": (hvd.allgather(torch.full((1, 3), RANK + step), name="row"),
                    torch.tensor([[rank + step] * 3 for rank in range(hvd.size())]))}


def broadcasts(step: int) -> dict[str, tuple]:
    root = hvd.size() - 1
    in_place = numbers(step, 5)
    hvd.broadcast_(in_place, root, name="in place")
    small = hvd.broadcast(numbers(step, 9).to(torch.float8_e5m2), root, name="float8")
    return {"float8": (small.float(), numbers(step, 9, root).to(torch.float8_e5m2).float()),
            "complex": (hvd.broadcast(torch.complex(numbers(step, 3), numbers(step, 3) + 1), root,
                                      name="complex"),
                        torch.complex(numbers(step, 3, root), numbers(step, 3, root) + 1)),
            "broadcast": (hvd.broadcast(numbers(step, 7), root, name="copy"),
                          numbers(step, 7, root)),
            "in place": (in_place, numbers(step, 5, root))}


def reducescatters(step: int) -> dict[str, tuple]:
    """Seven rows, which no number of ranks here divides, of two numbers."""
    mine = hvd.reducescatter(numbers(step, 14).reshape(7, 2), op=hvd.Sum, name="parts")
    parts = torch.tensor_split(total(step, 14).reshape(7, 2), hvd.size())
    average = hvd.reducescatter(numbers(step, 14).reshape(7, 2), name="average of parts")
    return {"parts": (mine, parts[RANK]), "average of parts": (average, parts[RANK] / hvd.size())}


def in_any_order(step: int) -> dict[str, tuple]:
    """Many at once, begun in another order on each rank."""
    names = [f"many {i}" for i in range(12)]
    start = (5 * RANK + step) % len(names)
    handles = {
        name: hvd.allreduce_async(numbers(step, 3 + len(name)), op=hvd.Sum, name=name)
        for name in names[start:] + names[:start]
    }
    return {name: (hvd.synchronize(handles[name]), total(step, 3 + len(name))) for name in names}


def wrong(results: dict[str, tuple]) -> list[str]:
    return [f"{name}: {tensor.tolist()[:9]}, not {expected.tolist()[:9]}"
            for name, (tensor, expected) in results.items()
            if tensor.shape != expected.shape or not torch.equal(tensor, expected)]


def one_step(step: int) -> list[str]:
    problems = []
    for kind in (allreduces, allgathers, broadcasts, reducescatters, in_any_order):
        problems += [f"step {step}, {what}" for what in wrong(kind(step))]
    return problems


def another_shape() -> list[str]:
    """Of all ranks at once: nobody has asked for it before."""
    for size in (21, 22):
        tensor = hvd.allreduce(numbers(0, size), op=hvd.Sum, name="shared")
        if not torch.equal(tensor, total(0, size)):
            return [f"{size} numbers: {tensor.tolist()}"]
    return []


def mismatch(name: str, own: torch.Tensor, operation: str = "allreduce") -> str:
    try:
        if operation == "allreduce":
            hvd.allreduce(own, op=hvd.Sum, name=name)
        else:
            hvd.broadcast(own, hvd.size() - 1, name=name)
    except hvd.HorovodInternalError as error:
        return str(error)
    return ""


def mismatches() -> dict[str, str]:
    """On the last rank: a size that is new, one that is known, another shape of one size, another
    type of one size in bytes."""
    last = hvd.size() - 1 == RANK
    return {
        "new": mismatch("average", numbers(0, 8 if last else 6)),
        "known": mismatch("shared", numbers(0, 9 if last else 4)),
        "shape": mismatch("max", numbers(0, 6).reshape(2, 3) if last else numbers(0, 6)),
        "type": mismatch("complex", torch.ones(3, dtype=torch.float64 if last else torch.complex64),
                         "broadcast"),
    }


def beside_a_join() -> str:
    """The last rank joins; what the others get for a call that it cannot be part of."""
    error = ""
    if hvd.size() - 1 != RANK:
        try:
            hvd.broadcast(numbers(0, 7), hvd.size() - 1, name="copy")
        except hvd.HorovodInternalError as refused:
            error = str(refused)
    hvd.join()
    return error


def special(name: str) -> torch.Tensor:
    bits = special_values.drawn(name, RANK)
    signed = torch.from_numpy(bits.view(bits.dtype.name[1:]))
    return signed.view(getattr(torch, name.split()[-1]))


def reduced_specials(times: int) -> dict[str, str]:
    """The bits of the last results. Some ranks flush denormals, as the framework's threads may."""
    given = {name: special(name) for name in special_values.NAMES}
    for _ in range(times):
        handles = {name: hvd.allreduce_async(tensor, op=getattr(hvd, name.split()[0]), name=name)
                   for name, tensor in given.items()}
        results = {name: hvd.synchronize(handle) for name, handle in handles.items()}
    return {name: result.view(torch.uint8).numpy().tobytes().hex()
            for name, result in results.items()}


faulthandler.dump_traceback_later(150)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
with running(hvd, "topo", HOROVOD_OPT_VERIFY="1"):
    problems = []
    rounds = take_steps(one_step, LEARNED, problems)
    meet("rounds")  # every rank has read it, before any asks for a round
    states = [plan.state for plan in horovod_opt.plans()]
    torch.set_flush_denormal(RANK % 2 == 1)
    specials = {"topo": reduced_specials(8)}
    torch.set_flush_denormal(False)
    problems += [f"{plan.name} is {plan.state}" for plan in horovod_opt.plans()
                 if " of " in plan.name and plan.state != "active"]
    problems += another_shape()
    errors = mismatches()
    joined = beside_a_join()
    for step in range(STEPS):
        problems += one_step(step)
torch.set_flush_denormal(RANK % 2 == 1)
with running(hvd, "off"):
    specials["off"] = reduced_specials(1)
with running(hvd, "off"):
    unnamed = {"off": unnamed_calls.one_step(0)}
with running(hvd, "topo", HOROVOD_OPT_VERIFY="1"):
    unnamed["topo"] = unnamed_calls.train(meet)
with running(hvd, "topo/operations"):
    unnamed["operations"] = unnamed_calls.by_horovod_ops()
for at_once in (False, True):
    with running(hvd, "topo"):
        unnamed[f"disorder {at_once}"] = unnamed_calls.in_another_order(at_once)
report(unnamed=unnamed, specials=specials, wrong=problems, rounds=rounds, states=states,
       errors=errors, joined=joined)
