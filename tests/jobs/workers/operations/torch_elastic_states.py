"""hvd.elastic.TorchState: restore() gives what was committed or received, each time it is called,
however it was changed since. What is wrong is returned as text."""

from __future__ import annotations

import copy
from collections.abc import Callable

import horovod.torch as hvd
import torch
from common import RANK
from torch_optimizer_methods import optimizer_classes
from torch_optimizer_run import Run, same
from torch_optimizer_state import OPTIONS, make, steps


class Counter:
    """An object of a script, as deep as it likes."""

    def __init__(self) -> None:
        self.counts = {"seen": [0]}

    def add(self) -> None:
        self.counts["seen"].append(len(self.counts["seen"]))


class Noted(torch.nn.Module):
    """With state of its own in its state_dict()."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.notes = ["made"]

    def get_extra_state(self) -> list:
        return self.notes

    def set_extra_state(self, state: list) -> None:
        self.notes = state


# What a script may keep, and how it goes on.
CHANGES: dict[str, tuple[object, Callable[[object], object]]] = {
    "list": ([1, [2]], lambda kept: (kept.append(3), kept[1].append(4))),
    "dict": ({"a": {"b": 1}}, lambda kept: kept["a"].update(b=kept["a"]["b"] + 1)),
    "set": ({1}, lambda kept: kept.add(len(kept) + 1)),
    "bytes": (bytearray(b"ab"), lambda kept: kept.extend(b"c")),
    "tensor": (torch.zeros(2, 3).t(), lambda kept: kept.add_(1)),
    "array": (torch.zeros(2).numpy(), lambda kept: kept.__iadd__(1)),
    "object": (Counter(), Counter.add),
    "tuple": (([1],), lambda kept: kept[0].append(2)),
    "none": (None, lambda kept: None),
    "function": (len, lambda kept: None),
    "computed": ([torch.ones(1, requires_grad=True) * 2], lambda kept: kept.append(1)),
}


def plain(value: object) -> object:
    if isinstance(value, Counter):
        return value.counts
    if isinstance(value, list) and value and torch.is_tensor(value[0]):
        return [float(part.detach()) if torch.is_tensor(part) else part for part in value]
    return value.tolist() if hasattr(value, "tolist") else value


def attributes() -> str:
    state = hvd.elastic.TorchState(**{name: kept for name, (kept, _) in CHANGES.items()})
    problems = [f"{name} is copied when the state is made" for name, (kept, _) in CHANGES.items()
                if getattr(state, name) is not kept]
    losses = state.list  # a second name of the script's

    def content() -> dict:
        return {name: repr(plain(getattr(state, name))) for name in CHANGES}

    def change() -> None:
        for name, (_, how) in CHANGES.items():
            how(getattr(state, name))

    for save in state.save, state.sync:
        change()
        state.save()
        save()
        saved = content()
        for _ in range(2):
            change()
            changed = content()
            problems += [f"{name} has not changed" for name in CHANGES if name not in (
                "none", "function") and changed[name] == saved[name]]
            state.restore()
            problems += [f"{name}: {text}, not {saved[name]}" for name, text in content().items()
                         if text != saved[name]]
    if losses is not state.list:
        problems.append("another list")
    return "; ".join(problems)


def extra_state() -> str:
    noted = Noted()
    state = hvd.elastic.TorchState(noted)
    for _ in range(2):
        noted.notes.append("changed")
        state.restore()
    return "" if noted.notes == ["made"] else f"{noted.notes}"


def samplers() -> str:
    """A sampler deals with the workers that there are, also if others only left."""
    sampler = hvd.elastic.ElasticSampler(range(20), shuffle=False)
    state = hvd.elastic.TorchState(sampler=sampler)
    sampler.record_batch(0, 3)
    state.save()
    sampler.num_replicas, sampler.rank = 5, 4  # as of the workers before
    state.on_reset()
    found = [list(sampler)]
    sampler.record_batch(0, 2)
    for _ in range(2):
        state.restore()
        found.append(list(sampler))
    mine = list(range(6, 20))[RANK::2]
    return "" if found == [mine] * 3 else f"{found}, not {mine}"


def no_copy() -> str:
    try:
        hvd.elastic.TorchState(lines=(line for line in ()))
    except TypeError as error:
        return str(error)
    return "no error"


def optimizer_and_others(name: str, cls: type, options: dict) -> str:
    """A model, its optimizer, a scheduler and a scaler go on as if nothing had been in between."""
    run = Run(True)
    optimizer = hvd.DistributedOptimizer(make(run, name, cls, options))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    others = torch.optim.swa_utils.AveragedModel(run.net)
    state = hvd.elastic.TorchState(model=run.net, optimizer=optimizer, scheduler=scheduler,
                                   others=others, step=0)

    def advance(first: int) -> None:
        steps(run, optimizer, first, 2)
        scheduler.step()
        others.update_parameters(run.net)
        state.step += 2

    def content() -> list:
        return copy.deepcopy([
            run.weights(), list(optimizer.state_dict()["state"].items()),
            optimizer.param_groups[0]["lr"], scheduler.last_epoch, state.step,
            list(others.state_dict().values())])

    problems = []
    for how in "new", "save", "sync":
        if how != "new":
            advance(0)
            state.save()
        if how == "sync":
            if RANK:
                run.net.load_state_dict({key: value + 1 for key, value in
                                         run.net.state_dict().items()})
            state.sync()
        saved, found = content(), []
        for _ in range(3):
            advance(5)
            found.append(content())
            state.restore()
            if not same(content(), saved):
                problems.append(f"{name}, {how}: {content()}, not {saved}")
        if not (same(found[0], found[1]) and same(found[0], found[2])):
            problems.append(f"{name}, {how}: goes on in another way")
    return "; ".join(problems)


def observe() -> dict:
    wrong = {"attributes": attributes(), "extra state": extra_state(),
             "samplers": samplers()}
    for name in "Adam", "SGD", "LBFGS":
        wrong[name] = optimizer_and_others(name, optimizer_classes()[name], OPTIONS[name][-1])
    return {"wrong": {name: text for name, text in wrong.items() if text}, "no copy": no_copy()}
