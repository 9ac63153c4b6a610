"""What cannot work with hvd.DistributedOptimizer says why; and what works with Adasum, or in a
process set of one rank."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable

import horovod.torch as hvd
import torch
from common import RANK
from torch_optimizer_methods import Left, load_again
from torch_optimizer_run import STEPS, Run, draw, same

last_rank = hvd.ProcessSet([1])


def error_of(program: Callable) -> str:
    print(f"rank {RANK}: {program.__name__}", flush=True)
    try:
        program()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        hvd.barrier()  # what was left on its way has arrived
    return ""


def backward_and_step(run: Run, optimizer: torch.optim.Optimizer, result: object) -> object:
    def closure() -> object:
        optimizer.zero_grad()
        run.loss(0).backward()
        return result

    return optimizer.step(closure)


def in_skip_synchronize() -> None:
    run = Run(True)
    optimizer = run.sgd()
    with optimizer.skip_synchronize():
        backward_and_step(run, optimizer, 1.0)


def on_one_rank() -> None:
    run = Run(True)
    backward_and_step(run, run.sgd(), 1.0 if RANK else None)


def closure_replaced() -> None:
    run = Run(True)
    optimizer = run.sgd()
    optimizer.register_step_pre_hook(
        lambda optimizer, args, kwargs: ((args[0], lambda: run.loss(0).backward()), kwargs))
    optimizer.step(lambda: run.loss(1).backward())


def other_parameters_on_each_rank() -> None:
    """As if nobody had broadcast them: the line searches are of different lengths."""
    run = Run(True)
    optimizer = run.wrap(torch.optim.LBFGS(
        run.net.parameters(), max_iter=RANK * 2 + 1, tolerance_grad=0, tolerance_change=0))
    for _ in range(3):
        backward_and_step(run, optimizer, 1.0)


def same_name() -> None:
    run = Run(True)
    optimizer = run.wrap(torch.optim.SGD(run.net[0].named_parameters(), lr=0.1),
                         named_parameters=run.net[0].named_parameters())
    optimizer.add_param_group({"params": list(run.net[2].named_parameters())})


def twice() -> None:
    run = Run(True)
    hvd.DistributedOptimizer(run.sgd())


def two_at_once() -> None:
    run = Run(True)
    optimizers = run.sgd(), run.sgd()
    run.loss(0).backward()
    optimizers[0].synchronize()  # and so they are in use until here


def shallow_copy() -> None:
    copy.copy(Run(True).sgd())


def adasum(make: Callable = torch.optim.SGD, **options: object) -> tuple:
    run = Run(True)
    options = {"lr": 0.1, **options}
    return run, hvd.DistributedOptimizer(make(run.net.parameters(), **options), op=hvd.Adasum)


def adasum_scaler() -> None:
    run, optimizer = adasum()
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(run.loss(0)).backward()
    try:
        scaler.step(optimizer)
    finally:
        optimizer.step()


def hook_before_adasum() -> None:
    adasum()[1].register_step_pre_hook(print)


ERRORS = (in_skip_synchronize, on_one_rank, closure_replaced, other_parameters_on_each_rank,
          same_name, twice, two_at_once, shallow_copy, adasum_scaler)


def adasum_methods() -> dict:
    """Gradients of both ranks are equal here: Adasum of equal updates is that update."""
    weights = []
    for wrap in (True, False):
        run = Run(True)
        run.net[2].weight.data = run.net[2].weight.data.t().contiguous().t()  # and sent as it reads
        sgd = torch.optim.SGD(run.net[0].parameters(), lr=0.1, momentum=0.9)
        optimizer = hvd.DistributedOptimizer(sgd, op=hvd.Adasum) if wrap else sgd
        calls: list[int] = []
        optimizer.register_step_post_hook(lambda *_, calls=calls: calls.append(1))
        optimizer.add_param_group({"params": run.net[2].parameters(), "lr": 0.05})
        for step in range(STEPS):
            optimizer.zero_grad(set_to_none=bool(step % 2))
            run.net(draw(step)).square().mean().backward()
            optimizer.step()
        weights.append([*run.weights(), torch.tensor(len(calls))])
    return {"same": same(*weights), "hook": error_of(hook_before_adasum),
            "left": adasum_of_steps_that_were_left()}


def adasum_of_steps_that_were_left() -> dict[str, bool]:
    """Parameters have their values after an exception in the backward pass, each time after more
    updates are on their way, and the next step is as if there had been none."""

    def leave(_: torch.Tensor) -> None:
        raise Left

    def train(go_on: Callable | None) -> torch.Tensor:
        run, optimizer = adasum()
        parameters = list(run.net.parameters())
        if go_on is None:
            run.train(optimizer, 2 * len(parameters))
        for step in range(2 * len(parameters) if go_on else 0):
            hook = parameters[step % len(parameters)].register_hook(leave)
            with contextlib.suppress(Left):
                run.loss(step).backward()
            hook.remove()
            if go_on is replace_dead:
                optimizer = None
            optimizer = go_on(run, optimizer)
            run.train(optimizer, 1, first=step)
        return torch.cat([weight.flatten() for weight in run.weights()])

    def replace_living(run: Run, _: object) -> torch.optim.Optimizer:
        return hvd.DistributedOptimizer(torch.optim.SGD(run.net.parameters(), lr=0.1),
                                        op=hvd.Adasum)

    def replace_dead(run: Run, _: None) -> torch.optim.Optimizer:
        return replace_living(run, None)

    undisturbed = train(None)
    results = {}
    for go_on in (load_again, replace_living, replace_dead):
        weights = train(go_on)
        everywhere = hvd.allgather(weights[None], name=f"adasum.{go_on.__name__}")
        results[go_on.__name__] = (same(weights, undisturbed)
                                   and all(torch.equal(row, weights) for row in everywhere))
    return results


def one_process_set() -> dict:
    """Only rank 1 has the optimizer's process set; both step with closures."""
    run, alone = Run(True), Run(True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(run.net.parameters(), lr=0.1), process_set=last_rank)
    sgd = torch.optim.SGD(alone.net.parameters(), lr=0.1)
    losses = [[backward_and_step(run_here, opt, step + RANK) for step in range(3)]
              for run_here, opt in ((run, optimizer), (alone, sgd))]
    return {"same": same([losses[0], run.weights()], [losses[1], alone.weights()])}
