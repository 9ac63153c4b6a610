"""Calls of PyTorch without a name, with the results that they must have."""

from __future__ import annotations

from collections.abc import Callable

import horovod.torch as hvd
import torch

import horovod_opt

STEPS = 30
LEARNED = 16  # in any step after it, every call is planned
EVALUATION = 5  # in every so many steps other calls come
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64)
MOVED = (*TYPES, torch.uint8, torch.bool, torch.complex64)


def numbers(step: int, size: int, rank: int | None = None, dtype=torch.float32) -> torch.Tensor:
    """Whole and small, so that sums are exact in every type."""
    rank = hvd.rank() if rank is None else rank
    return ((torch.arange(size) + 3 * rank + step) % 5).to(dtype)


def total(step: int, size: int, dtype=torch.float32) -> torch.Tensor:
    return sum(numbers(step, size, rank, dtype) for rank in range(hvd.size()))


def of_all(step: int, size: int, dtype=torch.float32) -> torch.Tensor:
    return torch.cat([numbers(step, size, rank, dtype) for rank in range(hvd.size())])


def kinds(step: int):
    root = hvd.size() - 1
    for dtype in TYPES:
        yield hvd.allreduce(numbers(step, 6, dtype=dtype), op=hvd.Sum), total(step, 6, dtype)
        rows = hvd.reducescatter(numbers(step, 6, dtype=dtype), op=hvd.Sum)
        yield rows, torch.tensor_split(total(step, 6, dtype), hvd.size())[hvd.rank()]
    for dtype in MOVED:
        yield hvd.allgather(numbers(step, 3, dtype=dtype)), of_all(step, 3, dtype)
        yield hvd.broadcast(numbers(step, 4, dtype=dtype), root), numbers(step, 4, root, dtype)
    own = 1 + (step + hvd.rank()) % 3  # rows, another number in each step
    every = [numbers(step, 1 + (step + rank) % 3, rank) for rank in range(hvd.size())]
    yield hvd.allgather(numbers(step, own)), torch.cat(every)
    in_place = numbers(step, 5)
    hvd.allreduce_(in_place, op=hvd.Max)
    yield in_place, torch.stack([numbers(step, 5, rank) for rank in range(hvd.size())]).amax(0)
    sizes = (3, 2, 3)
    tensors = [numbers(step, size) for size in sizes]
    yield from zip(hvd.grouped_allreduce(tensors, op=hvd.Sum),
                   [total(step, size) for size in sizes])
    yield from zip(hvd.grouped_allgather(tensors), [of_all(step, size) for size in sizes])


def at_once(step: int):
    """Many of one signature and of others, under way together, and waited for in another order on
    each rank."""
    sizes = [5, 5, 5, 4, 5, 5, 5, 5, 5, 4, 5, 5]
    handles = [hvd.allreduce_async(numbers(step + i, size), op=hvd.Sum)
               for i, size in enumerate(sizes)]
    start = (5 * hvd.rank() + step) % len(sizes)
    for i in [*range(start, len(sizes)), *range(start)]:
        yield hvd.synchronize(handles[i]), total(step + i, sizes[i])


def gradients(step: int):
    """Of what autograd sends itself, in its own thread."""
    own = numbers(step, 4).reshape(2, 2).requires_grad_()
    gathered = hvd.allgather(own)
    yield gathered.detach(), of_all(step, 4).reshape(-1, 2)
    (gathered * (hvd.rank() + 1)).sum().backward()
    yield own.grad, torch.full((2, 2), sum(range(1, hvd.size() + 1)) / hvd.size())
    summed = numbers(step, 3).requires_grad_()
    hvd.allreduce(summed, op=hvd.Sum).sum().backward()
    yield summed.grad, torch.full((3,), float(hvd.size()))


def evaluation(step: int):
    for i in range(4):
        yield hvd.allreduce(numbers(step + i, 1), op=hvd.Sum), total(step + i, 1)
        yield hvd.allgather(numbers(step + i, 2).long()), of_all(step + i, 2).long()


def varying(step: int):
    """Shapes that come once: they stay negotiated."""
    yield hvd.allreduce(numbers(step, 100 + step), op=hvd.Sum), total(step, 100 + step)


def wrong(what: str, results) -> list[str]:
    return [f"{what}, {i}: {tensor.tolist()[:9]}, not {expected.tolist()[:9]} ({expected.dtype})"
            for i, (tensor, expected) in enumerate(results)
            if tensor.shape != expected.shape or tensor.dtype != expected.dtype
            or not torch.equal(tensor, expected)]


def one_step(step: int) -> list[str]:
    problems = []
    for part in (kinds, at_once, gradients, *([evaluation] if step % EVALUATION == 0 else [])):
        problems += wrong(f"step {step}, {part.__name__}", part(step))
    return problems


def settle() -> None:
    """Whatever a rank has asked for is done in these rounds, or leads to one of the next."""
    for time in range(3):
        hvd.allreduce(torch.zeros(1), name=f"settle {time}")


def take_steps(step: Callable[[int], list[str]], learned: int, problems: list[str]) -> int:
    """Adds to `problems`. How many rounds were asked for from the step `learned` on."""
    before = 0
    for number in range(STEPS):
        if number == learned:
            settle()
            before = horovod_opt.stats().requested_rounds
        problems += step(number)
    return horovod_opt.stats().requested_rounds - before


def train(meet) -> dict[str, object]:
    """`meet(name)`: waits for all ranks, without Horovod."""
    problems = []
    rounds = take_steps(one_step, LEARNED, problems)
    meet("unnamed rounds")
    states = {plan.state for plan in horovod_opt.plans() if "noname" in plan.name}
    plans = len(horovod_opt.plans())
    for step in range(20):
        problems += wrong(f"varying, step {step}", varying(step))
    grown = len(horovod_opt.plans()) - plans
    # On one rank another size: the error of mode off, on all. Then all goes on.
    error = ""
    last = hvd.rank() == hvd.size() - 1
    try:
        hvd.allreduce(numbers(0, 5 if last else 6), op=hvd.Sum)
    except hvd.HorovodInternalError as mismatch:
        error = str(mismatch)
    for step in range(LEARNED):
        problems += one_step(step)
    # All join, and count anew. (After unequal numbers of calls names would differ, as in mode off.)
    hvd.join()
    again = take_steps(one_step, LEARNED, problems)
    meet("unnamed rounds again")
    return {"wrong": problems, "rounds": rounds, "rounds again": again, "states": sorted(states),
            "grown": grown, "error": error}


def by_horovod_ops() -> dict[str, object]:
    """Where Horovod's own operations reduce everything: allreduces alone are planned."""
    problems = [problem for step in range(LEARNED) for problem in one_step(step)]
    return {"wrong": problems,
            "plans": sorted({(plan.name.split()[0], plan.state) for plan in horovod_opt.plans()
                             if "noname" in plan.name})}


def in_another_order(at_once: bool) -> str:
    """On the last rank two calls are swapped, which are planned; what the rank gets for it."""
    def gather():
        return hvd.allgather_async(numbers(0, 3))

    def add(size: int = 6):
        return hvd.allreduce_async(numbers(0, size), op=hvd.Sum)

    for _ in range(12):
        for handle in (gather(), add(), add(5)):
            hvd.synchronize(handle)
    pair = [add, lambda: add(5)] if at_once else [gather, add]
    if hvd.rank() == hvd.size() - 1:
        pair.reverse()
    try:
        if at_once:
            handles = [call() for call in pair]
            for handle in handles:
                hvd.synchronize(handle)
        else:
            for call in pair:
                hvd.synchronize(call())
    except hvd.HorovodInternalError as error:
        return str(error)
    return ""
