"""Steps of hvd.DistributedOptimizer that ranks leave before their end, and trainings after that.

Reports by mode and case: the weights after a training that follows (their digest and sums), the
errors, and the states of the plans. Case `nothing` leaves no step.
"""

from __future__ import annotations

import copy
import faulthandler
import hashlib
import sys
import time
from collections.abc import Callable

import horovod.torch as hvd
import torch
from common import HANG_SECONDS, RANK, graph_plans, report, running, start_mpi
from horovod.torch.mpi_ops import _basics

STEPS, FAULT = 12, 8
LAYERS = 5


Weights = tuple[str, list[float]]


class Left(Exception):
    """The script's own error."""


class Training:
    """Two models, one after the other in each step, whose optimizers have a plan each."""

    def __init__(self) -> None:
        torch.manual_seed(4)
        self.models = [torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(LAYERS)])
                       for _ in range(2)]
        self.optimizers = [
            hvd.DistributedOptimizer(
                torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
                named_parameters=[(f"{number}.{name}", parameter)
                                  for name, parameter in model.named_parameters()])
            for number, model in enumerate(self.models)]
        self.saved = copy.deepcopy(self.states())

    def states(self) -> list[dict]:
        return [part.state_dict() for part in (*self.models, *self.optimizers)]

    def restore(self) -> None:
        """As a script does that goes back to its last checkpoint."""
        for part, state in zip((*self.models, *self.optimizers), copy.deepcopy(self.saved)):
            part.load_state_dict(state)
        for model in self.models:
            model.zero_grad()

    def loss(self, model: torch.nn.Module, step: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(100 * step + RANK)
        return model(torch.randn(4, 16, generator=generator)).square().mean()

    def run(self, leave: Callable[[Training, torch.Tensor], None] | None = None,
            at: int = FAULT) -> Weights:
        for step in range(STEPS):
            for number, (model, optimizer) in enumerate(zip(self.models, self.optimizers)):
                optimizer.zero_grad()
                loss = self.loss(model, step)
                if leave is not None and step == at and number == 1:
                    leave(self, loss)
                    continue
                loss.backward()
                optimizer.step()
        weights = [part for model in self.models for part in model.state_dict().values()]
        digest = hashlib.sha256(b"".join(part.numpy().tobytes() for part in weights)).hexdigest()
        sums = [part.sum().item() for part in weights]
        self.settle()
        return digest, sums

    def settle(self) -> None:
        """Goes on until all plans are active on all ranks: a slow one votes late."""
        until = time.monotonic() + HANG_SECONDS
        while not all_ranks(states_of_plans() in ([], ["active"])):
            assert time.monotonic() < until, states_of_plans()
            for model, optimizer in zip(self.models, self.optimizers):
                optimizer.zero_grad()
                self.loss(model, 0).backward()
                optimizer.step()


def states_of_plans() -> list[str]:
    return sorted({plan.state for plan in graph_plans()})


def all_ranks(flag: bool) -> bool:
    return bool(hvd.allreduce(torch.tensor(float(flag)), op=hvd.Min, name="all ranks"))


def raise_at(training: Training, loss: torch.Tensor, layer: int) -> None:
    def fail(_: torch.Tensor) -> None:
        raise Left

    hook = training.models[1][layer].weight.register_hook(fail)
    try:
        loss.backward()
    finally:
        hook.remove()


def leave_at_one_layer(training: Training, loss: torch.Tensor) -> None:
    raise_at(training, loss, 2)


def leave_at_different_layers(training: Training, loss: torch.Tensor) -> None:
    raise_at(training, loss, 1 + RANK)


def leave_out_a_batch(training: Training, loss: torch.Tensor) -> None:
    """After the gradients of the last layer."""
    training.models[1][-1](torch.ones(1, 16)).sum().backward()
    raise Left


def synchronize_and_go_on(training: Training, loss: torch.Tensor) -> None:
    try:
        raise_at(training, loss, 2)
    except Left:
        training.optimizers[1].synchronize()
        training.optimizers[1].zero_grad()


def do_it_again(training: Training, loss: torch.Tensor) -> None:
    """At once, while the last rank has not yet sent what the others have."""
    if RANK == hvd.size() - 1:
        time.sleep(0.3)
    optimizer = training.optimizers[1]
    try:
        raise_at(training, training.loss(training.models[1], 99), 2)
    except Left:
        optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def error_of(call: Callable[[], object]) -> str:
    try:
        call()
    except Left:
        return "left"
    except hvd.HorovodInternalError as error:
        return str(error)
    return ""


def after(leave: Callable, at: int = FAULT) -> tuple[list[str], Weights]:
    """All ranks leave, and train a new model under the same names."""
    errors = [error_of(lambda: Training().run(leave, at))]
    return errors, Training().run()


def with_the_same_optimizer(leave: Callable) -> tuple[list[str], Weights]:
    training = Training()
    errors = [error_of(lambda: training.run(leave))]
    training.restore()
    return errors, training.run()


def on_the_last_rank(goes_on: bool, same: bool) -> tuple[list[str], Weights]:
    """Which goes on with its next training at once, or waits for all ranks in another call."""
    training = Training()
    last = hvd.size() - 1 == RANK
    errors = [error_of(lambda: training.run(leave_at_one_layer if last else None))]
    if not goes_on:
        hvd.broadcast_object(None, name="somewhere else")
    if not same:
        training = Training()
    else:
        training.restore()
    return errors, training.run()


CASES: dict[str, Callable[[], tuple[list[str], Weights]]] = {
    "nothing": lambda: ([], Training().run()),
    "exception": lambda: after(leave_at_one_layer),
    "in the first step": lambda: after(leave_at_one_layer, 0),
    "in the second step": lambda: after(leave_at_one_layer, 1),
    "batch left out": lambda: after(leave_out_a_batch),
    "same optimizer": lambda: with_the_same_optimizer(leave_at_one_layer),
    "synchronized": lambda: ([], Training().run(synchronize_and_go_on)),
    "again in the first step": lambda: ([], Training().run(do_it_again, 0)),
    "again": lambda: ([], Training().run(do_it_again)),
}
CASES_OF_TOPO: dict[str, Callable[[], tuple[list[str], Weights]]] = {
    "at different layers": lambda: after(leave_at_different_layers),
    "one goes on": lambda: on_the_last_rank(goes_on=True, same=False),
    "one goes on with the same optimizer": lambda: on_the_last_rank(goes_on=True, same=True),
    "one waits elsewhere": lambda: on_the_last_rank(goes_on=False, same=False),
}

faulthandler.dump_traceback_later(120)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
results = {}
for mode in sys.argv[2:]:
    with running(hvd, mode, HOROVOD_FUSION_THRESHOLD="2400", HOROVOD_STALL_CHECK_TIME_SECONDS="1"):
        for case, run in (CASES if mode == "off" else CASES | CASES_OF_TOPO).items():
            errors, (digest, sums) = run()
            results[f"{mode} {case}"] = {"errors": errors, "digest": digest, "sums": sums,
                                          "states": states_of_plans()}
report(**results)
