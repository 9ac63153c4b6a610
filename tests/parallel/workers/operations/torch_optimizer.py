"""Programs with an optimizer of PyTorch: with hvd.DistributedOptimizer and without.

Two ranks with a batch each must do what one process does with both batches. A program is written
once. It gets a Run, which wraps the optimizer or does not, and whose loss is that of this rank's
batch or of all; what it returns must be the same, up to rounding in 64 bits.
"""

from __future__ import annotations

import copy
import faulthandler
import inspect
import io
import pickle
import warnings
from collections.abc import Callable, Iterator

import horovod.torch as hvd
import torch
from common import RANK, report, running, start_mpi
from horovod.torch.mpi_ops import _basics
from torch.optim import lr_scheduler, swa_utils

import horovod_opt

SIZE = 2
STEPS = 5
Program = Callable[["Run"], object]


def drawn(*key: int, shape: tuple[int, ...] = (4, 3)) -> torch.Tensor:
    seed = sum(one * 1000 ** place for place, one in enumerate(key))
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Run:
    """What a program needs: a network, batches, and a wrapper for its optimizer."""

    def __init__(self, distributed: bool):
        self.distributed = distributed
        self.ranks = [RANK] if distributed else range(SIZE)
        torch.manual_seed(1)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()

    def wrap(self, optimizer: torch.optim.Optimizer, **how: object) -> torch.optim.Optimizer:
        return hvd.DistributedOptimizer(optimizer, **how) if self.distributed else optimizer

    def sgd(self, parameters: object = None, **how: object) -> torch.optim.Optimizer:
        parameters = self.net.parameters() if parameters is None else parameters
        return self.wrap(torch.optim.SGD(
            parameters, **{"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, **how}))

    def loss(self, step: int, net: Callable | None = None) -> torch.Tensor:
        net = net or self.net
        return sum(net(drawn(step, rank)).square().mean() for rank in self.ranks) / len(self.ranks)

    def train(self, optimizer: torch.optim.Optimizer, steps: int = STEPS, first: int = 0) -> list:
        for step in range(first, first + steps):
            optimizer.zero_grad()
            self.loss(step).backward()
            optimizer.step()
        return self.weights()

    def weights(self) -> list:
        return [parameter.detach().clone() for parameter in self.net.parameters()]


# Each class of torch.optim


class Table(torch.nn.Module):
    """Sparse gradients, of other rows on each rank."""

    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Embedding(6, 2, sparse=True).double()
        torch.nn.init.constant_(self.rows.weight, 1.0)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.rows((data[:, 0].abs() * 3).long() % 6)


def optimizer_classes() -> dict[str, type]:
    found = inspect.getmembers(torch.optim, inspect.isclass)
    return {name: cls for name, cls in found
            if issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer}


def each_class(name: str, cls: type) -> Program:
    def program(run: Run) -> object:
        if name == "SparseAdam":
            run.net = Table()
        parameters = list(run.net.parameters())
        if name == "Muon":  # of matrices alone
            parameters = [parameter for parameter in parameters if parameter.dim() == 2]
            for bias in run.net[0].bias, run.net[2].bias:
                bias.requires_grad_(False)
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
    left = []
    for step, how in enumerate([{}, {"set_to_none": True}, {"set_to_none": False}]):
        run.loss(step).backward()
        optimizer.step()
        optimizer.zero_grad(**how)
        left += [parameter.grad is None for parameter in run.net.parameters()]
        optimizer.zero_grad(True)
    return left, run.weights()


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
    seen = [run.train(optimizer, 2)]
    run.net[0].requires_grad_(True)
    seen.append(run.train(optimizer, 9))
    run.net[2].requires_grad_(False)
    optimizer.zero_grad()
    seen.append(run.train(optimizer, 2))
    return seen, [parameter.grad is None for parameter in run.net.parameters()]


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
                torch.optim.optimizer.register_optimizer_step_pre_hook(before),
                torch.optim.optimizer.register_optimizer_step_post_hook(after)]
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
    other = run.sgd(lr=7.0)
    other.load_state_dict(torch.load(file))
    del optimizer
    return other.state_dict(), run.train(other, 2)


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
    net, other = copy.deepcopy((run.net, optimizer))
    run.train(optimizer, 2, first=2)
    weights, run.net = run.weights(), net
    return weights, repr(other), other.state_dict(), run.train(other, 3, first=5)


def pickled(run: Run) -> object:
    optimizer = run.sgd()
    run.train(optimizer, 2)
    run.net, other = pickle.loads(pickle.dumps((run.net, optimizer)))
    file = io.BytesIO()
    torch.save((run.net, other), file)
    file.seek(0)
    run.net, other = torch.load(file, weights_only=False)
    del optimizer
    return run.train(other, 2, first=2)


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


# Around the optimizer


def scheduler_classes() -> dict[str, Callable]:
    how = {
        "LambdaLR": {"lr_lambda": lambda epoch: 0.9 ** epoch},
        "MultiplicativeLR": {"lr_lambda": lambda epoch: 0.9},
        "StepLR": {"step_size": 2}, "MultiStepLR": {"milestones": [2, 4]},
        "ConstantLR": {}, "LinearLR": {}, "ExponentialLR": {"gamma": 0.9}, "PolynomialLR": {},
        "CosineAnnealingLR": {"T_max": 4}, "CosineAnnealingWarmRestarts": {"T_0": 2},
        "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 2},
        "OneCycleLR": {"max_lr": 0.1, "total_steps": 10},
        "ReduceLROnPlateau": {"patience": 0, "threshold": 10.0},
    }
    made = {name: lambda optimizer, name=name, how=how: getattr(lr_scheduler, name)(
        optimizer, **how) for name, how in how.items()}
    parts = lambda optimizer: [lr_scheduler.ConstantLR(optimizer),  # noqa: E731
                               lr_scheduler.ExponentialLR(optimizer, gamma=0.9)]
    made["SequentialLR"] = lambda optimizer: lr_scheduler.SequentialLR(
        optimizer, parts(optimizer), milestones=[2])
    made["ChainedScheduler"] = lambda optimizer: lr_scheduler.ChainedScheduler(parts(optimizer))
    made["SWALR"] = lambda optimizer: swa_utils.SWALR(optimizer, swa_lr=0.01, anneal_epochs=3)
    classes = {name for name, cls in inspect.getmembers(lr_scheduler, inspect.isclass)
               if issubclass(cls, lr_scheduler.LRScheduler) and cls.__module__ ==
               lr_scheduler.__name__ and not name.startswith("_")} - {"LRScheduler"}
    assert classes <= set(made), classes - set(made)
    return made


def each_scheduler(make: Callable) -> Program:
    def program(run: Run) -> object:
        optimizer = run.sgd()
        scheduler = make(optimizer)
        rates = []
        for step in range(STEPS):
            run.train(optimizer, 1, first=step)
            if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
                scheduler.step(1.0)
            else:
                scheduler.step()
            rates.append([{name: value for name, value in group.items() if name != "params"}
                          for group in optimizer.param_groups])
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # that a step has not been seen
            scheduler.load_state_dict(scheduler.state_dict())
        return rates, run.weights()

    return program


def scheduler_before_wrapping(run: Run) -> object:
    sgd = torch.optim.SGD(run.net.parameters(), lr=0.1)
    scheduler = lr_scheduler.ExponentialLR(sgd, gamma=0.5)
    optimizer = run.wrap(sgd)
    rates = []
    for step in range(STEPS):
        run.train(optimizer, 1, first=step)
        if step == 2:
            optimizer.load_state_dict(optimizer.state_dict())
        scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return rates, run.weights()


def scaled(how: str, make: Callable = torch.optim.SGD, **options: object) -> Program:
    """In the second and third step the gradient of one rank is not finite: no rank steps."""

    def program(run: Run) -> object:
        optimizer = run.wrap(make(run.net.parameters(), lr=0.1, **options))
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        scales = []
        for step in range(6):
            optimizer.zero_grad()
            loss = run.loss(step)
            if step in (1, 2) and step - 1 in run.ranks:
                loss = loss * torch.inf
            scaler.scale(loss).backward()
            if how == "by hand" and run.distributed:
                optimizer.synchronize()
            if how != "plain":
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(run.net.parameters(), 0.05)
            if how == "by hand" and run.distributed:
                with optimizer.skip_synchronize():
                    scaler.step(optimizer)
            else:
                scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        return scales, run.weights()

    return program


def scaler_off(run: Run) -> object:
    optimizer = run.sgd()
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for step in range(3):
        optimizer.zero_grad()
        scaler.scale(run.loss(step)).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return run.weights()


def averaged_model(run: Run) -> object:
    run.net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).double()
    for parameter in run.net.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    run.net[1].eval()  # its statistics are those of a batch
    optimizer = run.sgd()
    models = [swa_utils.AveragedModel(run.net), swa_utils.AveragedModel(
        run.net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True)]
    rates = swa_utils.SWALR(optimizer, swa_lr=0.02)
    for step in range(STEPS):
        run.train(optimizer, 1, first=step)
        for model in models:
            model.update_parameters(run.net)
        rates.step()
    swa_utils.update_bn([drawn(9, step) for step in range(3)], models[0])
    return [model.state_dict() for model in models]


# What cannot work says why


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
        sgd = torch.optim.SGD(run.net[0].parameters(), lr=0.1, momentum=0.9)
        optimizer = hvd.DistributedOptimizer(sgd, op=hvd.Adasum) if wrap else sgd
        calls: list[int] = []
        optimizer.register_step_post_hook(lambda *_, calls=calls: calls.append(1))
        optimizer.add_param_group({"params": run.net[2].parameters(), "lr": 0.05})
        for step in range(STEPS):
            optimizer.zero_grad(set_to_none=bool(step % 2))
            run.net(drawn(step)).square().mean().backward()
            optimizer.step()
        weights.append([*run.weights(), torch.tensor(len(calls))])
    return {"same": same(*weights), "hook": error_of(hook_before_adasum)}


def one_process_set() -> dict:
    """Only rank 1 has the optimizer's process set; both step with closures."""
    run, alone = Run(True), Run(True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(run.net.parameters(), lr=0.1), process_set=last_rank)
    sgd = torch.optim.SGD(alone.net.parameters(), lr=0.1)
    losses = [[backward_and_step(one, opt, step + RANK) for step in range(3)]
              for one, opt in ((run, optimizer), (alone, sgd))]
    return {"same": same([losses[0], run.weights()], [losses[1], alone.weights()])}


# The job


def same(one: object, other: object) -> bool:
    if torch.is_tensor(one):
        return torch.allclose(one.double(), other.double(), rtol=1e-7, atol=1e-10)
    if isinstance(one, dict):
        return list(one) == list(other) and same(list(one.values()), list(other.values()))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-7 * max(1.0, abs(other))
    return one == other


PROGRAMS: dict[str, Program] = {
    **{f"optim.{name}": each_class(name, cls) for name, cls in optimizer_classes().items()},
    **{f"lr_scheduler.{name}": each_scheduler(make)
       for name, make in scheduler_classes().items()},
    "lbfgs": lbfgs(), "lbfgs, line search": lbfgs(line_search_fn="strong_wolfe"),
    **{f"scaler, {how}": scaled(how) for how in ("plain", "unscaled", "by hand")},
    "scaler, fused": scaled("plain", torch.optim.Adam, fused=True),
    **{program.__name__: program for program in (
        fused, one_after_the_other, own_class, defaults, zero_grad, step_with_closure,
        closure_without_gradients, closure_that_clips, add_param_group, add_named_parameters,
        add_to_groups, freeze_and_unfreeze, step_hooks, clipping_hook, state_dict_hooks,
        save_and_load, wrapped_in_the_middle, deep_copy, pickled, profiled, profile_hook_step,
        scheduler_before_wrapping, scaler_off, averaged_model)},
}


def compare(name: str, program: Program) -> str:
    """Empty if the two runs give the same; otherwise what they gave, or the error."""
    seen = []
    print(f"rank {RANK}: {name}", flush=True)
    for distributed in True, False:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seen.append(program(Run(distributed)))
        except Exception as error:
            seen.append(f"{type(error).__name__}: {error}")
        hvd.barrier()
    return "" if same(*seen) else f"{seen[0]} with Horovod, {seen[1]} without"


def observe() -> dict:
    return {
        "programs": {name: compare(name, program) for name, program in PROGRAMS.items()},
        "errors": {program.__name__: error_of(program) for program in ERRORS},
        "adasum": adasum_methods(),
        "process set": one_process_set(),
        "passes": horovod_opt.stats().planned_iterations,
    }


def runs() -> Iterator[tuple[str, dict]]:
    for mode in "off", "topo":
        with running(hvd, mode, [last_rank]):
            yield mode, observe()
            hvd.barrier()


last_rank = hvd.ProcessSet([1])

faulthandler.dump_traceback_later(120)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
report(**dict(runs()))
