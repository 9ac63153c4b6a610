"""Programs with each class of torch.optim, and with each method and argument of an optimizer."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from collections.abc import Callable

import horovod.torch as hvd
import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch_optimizer_run import STEPS, Program, Run


class Table(torch.nn.Module):
    """Sparse gradients, of other rows on each rank."""

    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Embedding(6, 2, sparse=True).double()
        torch.nn.init.constant_(self.rows.weight, 1.0)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.rows((data[:, 0].abs() * 3).long() % 6)


def optimizer_classes() -> dict[str, type]:
    classes = inspect.getmembers(torch.optim, inspect.isclass)
    return {name: cls for name, cls in classes
            if issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer}


def parameters_for(name: str, run: Run) -> list[torch.nn.Parameter]:
    """Those that the optimizer of that name takes; the others are frozen."""
    if name == "SparseAdam":
        run.net = Table()
    parameters = list(run.net.parameters())
    if name == "Muon":  # of matrices alone
        parameters = [parameter for parameter in parameters if parameter.dim() == 2]
        for bias in run.net[0].bias, run.net[2].bias:
            bias.requires_grad_(False)
    return parameters


def each_class(name: str, cls: type) -> Program:
    def program(run: Run) -> object:
        parameters = parameters_for(name, run)
        optimizer = run.wrap(cls(parameters, lr=0.05))
        if name != "LBFGS":
            run.train(optimizer, 2)
            if run.distributed:
                hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            return run.train(optimizer, 3, first=2)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = run.loss(0)
            loss.backward()
            return loss

        return [optimizer.step(closure) for _ in range(STEPS)], run.weights()

    return program


def fused(run: Run) -> object:
    return [run.train(run.wrap(cls(run.net.parameters(), lr=0.05, fused=True)))
            for cls in (torch.optim.SGD, torch.optim.Adam)]


def one_after_the_other(run: Run) -> object:
    """A model that is trained with one optimizer, and then with another one."""
    return [run.train(run.sgd(foreach=True)), run.train(run.sgd(maximize=True))]


class Own(torch.optim.Optimizer):
    """A user's: its arguments have no defaults, and its step takes none."""

    def __init__(self, parameters: object, rate: float, *, scale: float):
        super().__init__(parameters, {"rate": rate})
        self.scale = scale

    @torch.no_grad()
    def step(self) -> str:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(self.scale * group["rate"] * parameter.grad)
        return "done"


def own_class(run: Run) -> object:
    optimizer = run.wrap(Own(run.net.parameters(), 0.1, scale=2.0))
    run.train(optimizer, 2)
    run.loss(2).backward()
    return optimizer.step(), run.weights()


# Each method and argument


def defaults(run: Run) -> object:
    """Those of the optimizer that is wrapped, not of its class."""
    optimizer = run.sgd(nesterov=True)
    return sorted(optimizer.defaults.items(), key=str), repr(optimizer), run.train(optimizer)


def zero_grad(run: Run) -> object:
    optimizer = run.sgd()
    are_none = []
    for step, how in enumerate([{}, {"set_to_none": True}, {"set_to_none": False}]):
        run.loss(step).backward()
        optimizer.step()
        optimizer.zero_grad(**how)
        are_none += [parameter.grad is None for parameter in run.net.parameters()]
        optimizer.zero_grad(True)
    return are_none, run.weights()


class Left(Exception):
    """The script's own error."""


def load_again(run: Run, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    optimizer.load_state_dict(optimizer.state_dict())
    return optimizer


def replace_living(run: Run, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """While there is the old one."""
    return run.sgd()


def replace_dead(run: Run, _: None) -> torch.optim.Optimizer:
    return run.sgd()


def left_and_zeroed_in_place(go_on: Callable) -> Program:
    """Steps that end in the backward pass, each time after more gradients; what was on its way
    then must not come into those that were zeroed."""

    def leave(_: torch.Tensor) -> None:
        raise Left

    def program(run: Run) -> object:
        optimizer = run.sgd()
        parameters = list(run.net.parameters())
        run.train(optimizer, 1)
        for step in range(12):
            optimizer.zero_grad(set_to_none=False)
            hook = parameters[step % len(parameters)].register_hook(leave)
            try:
                run.loss(step).backward()
            except Left:
                if go_on is replace_dead:
                    optimizer = None
                optimizer = go_on(run, optimizer)
            hook.remove()
            for parameter in parameters:
                parameter.grad.zero_()
            run.loss(step).backward()
            optimizer.step()
        return run.weights()

    return program


def step_with_closure(run: Run) -> object:
    optimizer = run.wrap(torch.optim.Adam(run.net.parameters(), lr=0.01))
    losses = []
    for step in range(STEPS):
        def closure(step=step) -> torch.Tensor:
            optimizer.zero_grad()
            loss = run.loss(step)
            loss.backward()
            return loss

        losses.append(optimizer.step(closure) if step % 2 else optimizer.step(closure=closure))
    return losses, run.weights()


def closure_without_gradients(run: Run) -> object:
    """The loss is known, and gradients have been computed before; a loss may be no tensor."""
    optimizer = run.sgd()
    results = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = run.loss(step)
        loss.backward()
        results.append(optimizer.step(lambda loss=loss, step=step: loss.item() if step else None))
    return results, run.weights()


def lbfgs(**how: object) -> Program:
    def program(run: Run) -> object:
        optimizer = run.wrap(torch.optim.LBFGS(run.net.parameters(), max_iter=6, **how))
        evaluations = []

        def closure() -> torch.Tensor:
            optimizer.zero_grad(set_to_none=True)
            loss = run.loss(1)
            loss.backward()
            evaluations.append(1)
            return loss

        losses = [float(optimizer.step(closure)) for _ in range(4)]
        assert losses[-1] < losses[0], losses
        return losses, len(evaluations), run.weights()

    return program


def closure_that_clips(run: Run) -> object:
    """With synchronize() and skip_synchronize(), as without a closure."""
    optimizer = run.wrap(torch.optim.LBFGS(run.net.parameters(), max_iter=3))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = run.loss(1)
        loss.backward()
        if run.distributed:
            optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(run.net.parameters(), 0.05)
        return loss

    for _ in range(3):
        if run.distributed:
            with optimizer.skip_synchronize():
                optimizer.step(closure)
        else:
            optimizer.step(closure)
    return run.weights()


def add_param_group(run: Run) -> object:
    """Defaults, options and names of the new group; its gradients are reduced, too."""
    first, last = run.net[0], run.net[2]
    optimizer = run.sgd([first.weight])
    for parameter in (first.bias, *last.parameters()):
        parameter.requires_grad_(False)
    run.train(optimizer, 2)
    first.bias.requires_grad_(True)
    optimizer.add_param_group({"params": first.bias})
    run.train(optimizer, 2, first=2)
    last.requires_grad_(True)
    optimizer.zero_grad()
    run.loss(4).backward()  # between backward() and step()
    optimizer.add_param_group({"params": list(last.parameters()), "lr": 0.01})
    optimizer.step()
    return repr(optimizer), run.train(optimizer, 3, first=5)


def add_named_parameters(run: Run) -> object:
    optimizer = run.sgd(list(run.net[0].named_parameters(prefix="first")))
    optimizer.add_param_group({"params": list(run.net[2].named_parameters(prefix="last"))})
    return optimizer.state_dict()["param_groups"], run.train(optimizer)


def add_to_groups(run: Run) -> object:
    sgd = torch.optim.SGD(run.net[0].parameters(), lr=0.1)
    optimizer = run.wrap(sgd, groups=2) if run.distributed else sgd
    optimizer.add_param_group({"params": run.net[2].parameters()})
    return run.train(optimizer)


def freeze_and_unfreeze(run: Run) -> object:
    """What is frozen stays, whatever momentum and weight decay would do with a gradient of 0."""
    run.net[0].requires_grad_(False)
    optimizer = run.sgd()
    losses = [run.train(optimizer, 2)]
    run.net[0].requires_grad_(True)
    losses.append(run.train(optimizer, 9))
    run.net[2].requires_grad_(False)
    optimizer.zero_grad()
    losses.append(run.train(optimizer, 2))
    return losses, [parameter.grad is None for parameter in run.net.parameters()]


def step_hooks(run: Run) -> object:
    """Once a step, before it with the gradients that it uses; also those from before wrapping."""
    sgd = torch.optim.SGD(run.net.parameters(), lr=0.1)
    calls: list = []

    def before(optimizer: object, args: tuple, kwargs: dict) -> None:
        calls.append(["before", *(parameter.grad.clone() for parameter in run.net.parameters())])

    def after(optimizer: object, args: tuple, kwargs: dict) -> None:
        calls.append(["after", *run.weights()])

    handles = [sgd.register_step_pre_hook(before)]
    optimizer = run.wrap(sgd)
    handles += [optimizer.register_step_post_hook(after),
                register_optimizer_step_pre_hook(before),
                register_optimizer_step_post_hook(after)]
    run.train(optimizer, 2)
    optimizer.load_state_dict(optimizer.state_dict())  # PyTorch may install its hooks anew
    run.train(optimizer, 2)
    for handle in handles:
        handle.remove()
    return calls, run.train(optimizer, 1)


def clipping_hook(run: Run) -> object:
    optimizer = run.sgd()
    optimizer.register_step_pre_hook(
        lambda *_: torch.nn.utils.clip_grad_norm_(run.net.parameters(), 0.05) and None)
    return run.train(optimizer)


def state_dict_hooks(run: Run) -> object:
    optimizer = run.sgd()
    run.train(optimizer, 2)
    calls: list[str] = []
    optimizer.register_state_dict_pre_hook(lambda _: calls.append("before state_dict"))
    optimizer.register_state_dict_post_hook(
        lambda _, state: calls.append("after state_dict") or {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(
        lambda _, state: calls.append(f"before loading {state.pop('more')}"))
    optimizer.register_load_state_dict_post_hook(
        lambda _: calls.append("after loading"), prepend=True)
    optimizer.load_state_dict(optimizer.state_dict())
    return calls, run.train(optimizer, 2)


def save_and_load(run: Run) -> object:
    optimizer = run.sgd()
    run.train(optimizer, 2)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    restored = run.sgd(lr=7.0)
    restored.load_state_dict(torch.load(file))
    del optimizer
    return restored.state_dict(), run.train(restored, 2)


def wrapped_in_the_middle(run: Run) -> object:
    """The state that the optimizer has goes on."""
    adam = torch.optim.Adam(run.net.parameters(), lr=0.05)
    everything = Run(distributed=False)
    everything.net = run.net
    everything.train(adam, 2)
    optimizer = run.wrap(adam)
    return run.train(optimizer, 2), optimizer.state_dict()


def deep_copy(run: Run) -> object:
    """Model and optimizer go their own ways from then on."""
    optimizer = run.sgd()
    run.train(optimizer, 2)
    net, copied = copy.deepcopy((run.net, optimizer))
    run.train(optimizer, 2, first=2)
    weights, run.net = run.weights(), net
    return weights, repr(copied), copied.state_dict(), run.train(copied, 3, first=5)


def pickled(run: Run) -> object:
    optimizer = run.sgd()
    run.train(optimizer, 2)
    run.net, restored = pickle.loads(pickle.dumps((run.net, optimizer)))
    file = io.BytesIO()
    torch.save((run.net, restored), file)
    file.seek(0)
    run.net, restored = torch.load(file, weights_only=False)
    del optimizer
    return run.train(restored, 2, first=2)


def profiled(run: Run) -> object:
    optimizer = run.sgd()
    with torch.autograd.profiler.profile() as profile:
        run.train(optimizer, 3)
        optimizer.load_state_dict(optimizer.state_dict())
        run.train(optimizer, 1)
    return sorted(event.name for event in profile.function_events
                  if event.name.startswith("Optimizer."))


def profile_hook_step(run: Run) -> object:
    """A user's class may apply it itself."""

    class Hooked(Own):
        step = torch.optim.Optimizer.profile_hook_step(Own.step)

    optimizer = run.wrap(Hooked(run.net.parameters(), 0.1, scale=1.0))
    calls: list[int] = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    return run.train(optimizer, 2), len(calls)


PROGRAMS: dict[str, Program] = {
    **{f"optim.{name}": each_class(name, cls) for name, cls in optimizer_classes().items()},
    "lbfgs": lbfgs(), "lbfgs, line search": lbfgs(line_search_fn="strong_wolfe"),
    **{f"left_and_zeroed_in_place, {go_on.__name__}": left_and_zeroed_in_place(go_on)
       for go_on in (load_again, replace_living, replace_dead)},
    **{program.__name__: program for program in (
        fused, one_after_the_other, own_class, defaults, zero_grad, step_with_closure,
        closure_without_gradients, closure_that_clips, add_param_group, add_named_parameters,
        add_to_groups, freeze_and_unfreeze, step_hooks, clipping_hook, state_dict_hooks,
        save_and_load, wrapped_in_the_middle, deep_copy, pickled, profiled, profile_hook_step)},
}
