"""hvd.broadcast_optimizer_state(): each rank has the state of the root, whatever it was before.

Rank 0 has trained alone, as if it had loaded a checkpoint. What is wrong is returned as text.
"""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable, Iterator

import horovod.torch as hvd
import torch
from common import RANK
from torch_optimizer_methods import optimizer_classes, parameters_for
from torch_optimizer_run import Run, draw, same

# Options of each class whose state is another one.
OPTIONS: dict[str, list[dict]] = {
    "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1}, {"fused": True}, {"foreach": True}],
    "AdamW": [{"lr": torch.tensor(0.05), "foreach": False}, {"amsgrad": True}],
    "ASGD": [{"t0": 1.0}],
    "LBFGS": [{"history_size": 3}, {"line_search_fn": "strong_wolfe"}],
    "NAdam": [{"decoupled_weight_decay": True}],
    "RMSprop": [{"momentum": 0.9, "centered": True}],
    "SGD": [{}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}],
}


def make(run: Run, name: str, cls: type, options: dict) -> torch.optim.Optimizer:
    parameters = parameters_for(name, run)
    options = {name: value.clone() if torch.is_tensor(value) else value
               for name, value in options.items()}
    if name == "LBFGS":
        return cls(parameters, **{"lr": 0.5, "max_iter": 2, **options})
    # Groups of their own options.
    groups = [{"params": [parameter], "note": [number, None, True]}
              for number, parameter in enumerate(parameters)]
    return cls(parameters if name == "SparseAdam" else groups, **{"lr": 0.05, **options})


def steps(run: Run, optimizer: torch.optim.Optimizer, first: int, count: int) -> None:
    for step in range(first, first + count):
        def closure(step: int = step) -> torch.Tensor:
            optimizer.zero_grad()
            loss = run.loss(step)
            loss.backward()
            return loss

        if isinstance(optimizer, torch.optim.LBFGS):
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()


def checkpoint(name: str, cls: type, options: dict) -> str:
    """The job goes on as one process does that trains from there."""
    results = []
    for is_distributed in True, False:
        run = Run(is_distributed)
        optimizer = make(run, name, cls, options)
        alone = Run(False)
        alone.net = run.net
        if RANK == 0 or not is_distributed:
            steps(alone, optimizer, 0, 2)
        if is_distributed:
            optimizer = hvd.DistributedOptimizer(optimizer)
            hvd.broadcast_parameters(run.net.state_dict(), root_rank=0)
            before = run.weights(), [parameter.grad for parameter in run.net.parameters()]
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            after = run.weights(), [parameter.grad for parameter in run.net.parameters()]
            if not same(before[0], after[0]) or not all(
                    first is second for first, second in zip(before[1], after[1])):
                return "a weight or a gradient has changed"
            state = copy.deepcopy(optimizer.state_dict())
        else:
            wanted = optimizer.state_dict()
            if not same(described(state), described(wanted)):
                return f"{state}, not {wanted}"
        steps(run, optimizer, 2, 2)
        results.append(run.weights())
    return "" if same(*results) else f"{results[0]}, not {results[1]}"


def described(value: object) -> object:
    """With what same() does not look at."""
    if torch.is_tensor(value):
        return [value, str(value.dtype), list(value.shape)]
    if isinstance(value, dict):
        return {name: described(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, collections.deque)):
        return [type(value).__name__, *map(described, value)]
    return value


def checkpoints() -> Iterator[tuple[str, str]]:
    for name, cls in optimizer_classes().items():
        for options in OPTIONS.get(name, [{}]):
            yield f"{name} {options}", checkpoint(name, cls, options)


def adams(trained: dict[int, list[int]]) -> tuple[Run, torch.optim.Optimizer]:
    """On each rank Adam has made a step with the gradients of these parameters, in this order."""
    run = Run(True)
    parameters = list(run.net.parameters())
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    for number in trained[RANK]:
        parameters[number].grad = torch.full_like(parameters[number], number + 1.0)
        optimizer.step()
        parameters[number].grad = None
    return run, hvd.DistributedOptimizer(optimizer)


def of_parameters(trained: dict[int, list[int]], root: int) -> str:
    run, optimizer = adams(trained)
    parameters = list(run.net.parameters())
    wanted = hvd.broadcast_object({number: optimizer.state[parameter]
                                   for number, parameter in enumerate(parameters)
                                   if parameter in optimizer.state}, root, name="wanted")
    hvd.broadcast_optimizer_state(optimizer, root_rank=root)
    found = {number: optimizer.state[parameter] for number, parameter in enumerate(parameters)
             if parameter in optimizer.state}
    return "" if same(described(found), described(wanted)) else f"{found}, not {wanted}"


def any_state() -> str:
    """Whatever a user's optimizer keeps; and tensors that are there stay where they are."""
    run = Run(True)
    parameters = list(run.net.parameters())
    optimizer = torch.optim.SGD([{"params": parameters[:2]}, {"params": parameters[2:]}], lr=0.1)
    numbers = draw(RANK, shape=(4, 3))
    shared = numbers.float()
    kept = optimizer.state[parameters[0]]["kept"] = numbers.t().contiguous().t()
    optimizer.param_groups[0]["rate"] = rate = torch.tensor(0.5 + RANK)
    if RANK == 0:
        optimizer.state[parameters[0]].update({
            "bool": numbers > 0, "complex": torch.complex(numbers, numbers).conj(),
            "complex64": torch.complex(shared, shared), "unsigned": (numbers * 9).to(torch.int32)
            .view(torch.uint32), "bfloat16": numbers.bfloat16(), "half": numbers.half(),
            "float8": numbers.to(torch.float8_e4m3fn), "scalar": torch.tensor(7, dtype=torch.int8),
            "empty": numbers[:0], "expanded": numbers[:1].expand(4, 3), "sliced": numbers[::2, 1:],
            "sparse": numbers.clamp(min=0).to_sparse(), "negated": torch._neg_view(numbers)})
        optimizer.state[parameters[3]] = {
            "nested": [None, {"deep": (shared, collections.deque([shared * 2, True]))}],
            "same": shared, "parameter": parameters[1], "text": "x", "none": None}
        optimizer.state["of no parameter"] = {"count": torch.ones(2)}
        optimizer.param_groups[1].update(schedule=[numbers.sum(), None, {"on": True}],
                                         lr=torch.tensor(0.25))
    else:
        optimizer.param_groups[1].update(mine=1, lr=0.75)
        optimizer.state[parameters[2]]["mine"] = 1

    def content() -> list:
        numbers = {parameter: number for number, parameter in enumerate(parameters)}
        state = {numbers.get(key, key): value for key, value in optimizer.state.items()}
        groups = [{name: value for name, value in sorted(group.items()) if name != "params"}
                  for group in optimizer.param_groups]
        state[0]["sparse"] = state[0]["sparse"].to_dense()
        for name in "unsigned", "float8":
            state[0][name] = state[0][name].view(
                torch.int32 if name == "unsigned" else torch.uint8)
        for name in "complex", "complex64":
            state[0][name] = torch.view_as_real(state[0][name].resolve_conj())
        del state[3]["parameter"]
        return described([state, groups])

    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    state = optimizer.state[parameters[3]]
    problems = []
    if state["parameter"] is not parameters[1]:
        problems.append("a parameter is another one")
    if state["nested"][1]["deep"][0] is not state["same"]:
        problems.append("what was one tensor is two")
    if optimizer.state[parameters[0]]["kept"] is not kept or (
            optimizer.param_groups[0]["rate"] is not rate):
        problems.append("a tensor that was alike is another one")
    found = content()
    wanted = hvd.broadcast_object(found, 0, name="wanted")
    if not same(found, wanted):
        problems.append(f"{found}, not {wanted}")
    return "; ".join(problems)


def memory_orders() -> str:
    """State has the layout of its parameter, on each rank that of its own."""
    weights = torch.nn.Conv2d(3, 4, 2).weight.detach()
    parameter = torch.nn.Parameter(weights if RANK else weights.contiguous(
        memory_format=torch.channels_last))
    optimizer = torch.optim.Adam([parameter])
    if RANK == 0:
        parameter.grad = torch.arange(48.0).reshape(4, 3, 2, 2)
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    moment = optimizer.state[parameter]["exp_avg"]
    if moment.stride() != parameter.stride():
        return f"strides {moment.stride()}, not {parameter.stride()}"
    right = torch.arange(48.0).reshape(4, 3, 2, 2) / 10
    return "" if torch.allclose(moment, right) else f"{moment}"


class Locked:
    def __reduce__(self) -> object:
        raise TypeError("a lock")


def refused(change: Callable[[torch.nn.Module], object]) -> str:
    """The error; on each rank the same."""
    optimizer = change(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2)))
    try:
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    except ValueError as error:
        return str(error)
    return "no error"


def locked(net: torch.nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.param_groups[0]["lock"] = Locked() if RANK == 0 else None
    return optimizer


def observe() -> dict:
    return {
        "wrong": {name: text for name, text in (
            *checkpoints(),
            ("none on the root", of_parameters({0: [], 1: [0, 1, 2, 3]}, 0)),
            ("none on the root 1", of_parameters({0: [0, 1, 2, 3], 1: []}, 1)),
            ("none anywhere", of_parameters({0: [], 1: []}, 0)),
            ("of a part", of_parameters({0: [1, 3], 1: [0, 3, 1]}, 0)),
            ("of another part", of_parameters({0: [2], 1: [0, 1]}, 1)),
            ("another order", of_parameters({0: [3, 0, 2, 1], 1: [1, 2, 0, 3]}, 0)),
            ("any state", any_state()), ("memory orders", memory_orders()),
        ) if text},
        "refused": {
            "class": refused(lambda net: (torch.optim.SGD if RANK else torch.optim.Adam)(
                net.parameters(), lr=0.1)),
            "groups": refused(lambda net: torch.optim.SGD(
                list(net.parameters())[:2 + RANK], lr=0.1)),
            "shapes": refused(lambda net: torch.optim.SGD(net[RANK].parameters(), lr=0.1)),
            "pickle": refused(locked),
        },
    }
