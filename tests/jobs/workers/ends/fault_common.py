"""Training in which the last rank does something wrong in the middle of a step.

Rank 0 saves a checkpoint now and then, as users do; every rank says what it saw of the fault.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import horovod.torch as hvd
import torch
from common import FOLDER, RANK, graph_plans

STEPS, FAULT, SAVE_EVERY = 20, 14, 4


def digest(weights: dict[str, torch.Tensor]) -> str:
    return hashlib.sha256(b"".join(part.numpy().tobytes() for part in weights.values())).hexdigest()


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))


def fail() -> None:
    raise KeyError("a bug in the training script")


def save(name: str, step: int, model: torch.nn.Module) -> None:
    """All at once, so that there is a whole one at any time; `saves` says what was in each."""
    path = FOLDER / f"{name}.pt"
    torch.save({"step": step, "weights": model.state_dict()}, path.with_suffix(".part"))
    with open(FOLDER / f"{name}.saves", "a") as file:
        file.write(f"{step} {digest(model.state_dict())}\n")
    path.with_suffix(".part").rename(path)


def train(
    name: str,
    in_backward: Callable[[], None] = lambda: None,
    of_loss: Callable[[torch.Tensor], torch.Tensor] = lambda loss: loss,
    model: torch.nn.Module | None = None,
    steps: float = STEPS,
) -> dict:
    """What this rank saw; `seconds` is the time from the fault to the error.

    In step FAULT the last rank calls `in_backward` when some of its gradients are on their way and
    others are not, and averages `of_loss(loss)` where the others average their loss.
    """
    step = 0
    model = model or network()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sgd = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters())
    started = FOLDER / f"{name}.fault"

    def at_fault() -> bool:
        return step == FAULT and RANK == hvd.size() - 1

    def between(_: torch.Tensor) -> None:
        if at_fault():
            started.write_text(str(time.time()))
            in_backward()

    model[0].weight.register_hook(between)
    outcome = {"error": ""}
    try:
        while step < steps:
            data = torch.randn(5, 8, generator=torch.Generator().manual_seed(100 * step + RANK))
            sgd.zero_grad()
            loss = model(data).square().mean()
            loss.backward()
            sgd.step()
            hvd.allreduce(of_loss(loss) if at_fault() else loss, name="loss")
            step += 1
            if RANK == 0 and step % SAVE_EVERY == 0:
                save(name, step, model)
    except Exception as error:
        outcome["error"] = f"{type(error).__name__}: {error}"
        if started.exists():
            outcome["seconds"] = time.time() - float(started.read_text())
    outcome["step"] = step
    outcome["weights"] = digest(model.state_dict())
    plans = graph_plans()
    outcome["states"] = [plan.state for plan in plans]
    outcome["iterations"] = [plan.iterations for plan in plans]
    outcome["planned"] = [sorted(name for bucket in plan.buckets for name in bucket)
                          for plan in plans]
    return outcome
