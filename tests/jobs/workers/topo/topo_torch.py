"""PyTorch training, in mode off and in topo: the same programs, the same bits, planned in one."""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable, Iterator

import horovod.torch as hvd
import torch
from common import RANK, graph_plans, report, running, start_mpi
from horovod.torch.mpi_ops import _basics

import horovod_opt

STEPS = 14  # the buckets are rebuilt in one of them


class Branching(torch.nn.Module):
    """Uses one of two layers, so that the gradients of the other one arrive late, as zeros."""

    def __init__(self, depth: int = 3, width: int = 8):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(depth))
        self.even, self.odd = torch.nn.Linear(width, 4), torch.nn.Linear(width, 4)

    def forward(self, data: torch.Tensor, even: bool = True) -> torch.Tensor:
        for layer in self.layers:
            data = torch.tanh(layer(data))
        return (self.even if even else self.odd)(data)


def model(seed: int = 1, **how: int) -> Branching:
    torch.manual_seed(seed)
    return Branching(**how)


def optimizer(of: torch.nn.Module, rate: float = 0.1, momentum: float = 0.9,
              **how: object) -> torch.optim.Optimizer:
    sgd = torch.optim.SGD(of.parameters(), lr=rate, momentum=momentum)
    return hvd.DistributedOptimizer(sgd, named_parameters=of.named_parameters(), **how)


def batch(step: int) -> torch.Tensor:
    return torch.randn(5, 8, generator=torch.Generator().manual_seed(100 * step + RANK))


def backward(of: Branching, step: int, even: bool = True) -> None:
    data = batch(step).to(of.even.weight.dtype)
    of(data, even).square().mean().backward()


def weights(*models: torch.nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for model in models for parameter in model.parameters()]


def train(steps: int = STEPS, even: Callable[[int], bool] = lambda step: True,
          net: Branching | None = None, **how: object) -> list[torch.Tensor]:
    net = net or model()
    sgd = optimizer(net, **how)
    for step in range(steps):
        sgd.zero_grad()
        if RANK == 0 and step % 5 == 4:
            time.sleep(0.02)
        backward(net, step, even(step))
        sgd.step()
    return weights(net)


def plain() -> list[torch.Tensor]:
    return train()


def other_branch_each_step() -> list[torch.Tensor]:
    return train(even=lambda step: step % 2 == 0)


def other_branch_on_each_rank() -> list[torch.Tensor]:
    return train(even=lambda step: (step + RANK) % 3 == 0)


def compressed() -> list[torch.Tensor]:
    return train(compression=hvd.Compression.fp16)


def compressed_to_bfloat16() -> list[torch.Tensor]:
    return train(compression=hvd.Compression.bf16)


def in_bfloat16() -> list[torch.Tensor]:
    return train(net=model().bfloat16())


def predivided() -> list[torch.Tensor]:
    return train(gradient_predivide_factor=2.0)


def summed() -> list[torch.Tensor]:
    return train(op=hvd.Sum)


def grouped() -> list[torch.Tensor]:
    return train(num_groups=2)


def grouped_by_lists() -> list[torch.Tensor]:
    net = model()
    layers = list(net.layers.parameters())
    return train(net=net, groups=[layers[::2], layers[1::2]])


def accumulated() -> list[torch.Tensor]:
    net = model()
    sgd = optimizer(net, backward_passes_per_step=2)
    for step in range(STEPS):
        sgd.zero_grad()
        backward(net, 2 * step)
        backward(net, 2 * step + 1)
        sgd.step()
    return weights(net)


def with_other_operations() -> list[torch.Tensor]:
    """Between the backward pass and the step: clipping, and allreduces of the same names."""
    net = model()
    sgd = optimizer(net)
    tensors = []
    for step in range(STEPS):
        sgd.zero_grad()
        tensors.append(hvd.allreduce(batch(step), name="even.weight"))
        backward(net, step)
        tensors.append(hvd.allgather(batch(step)[:1 + RANK], name="gathered"))
        sgd.synchronize()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        with sgd.skip_synchronize():
            sgd.step()
    return [*weights(net), *tensors]


class Embedded(torch.nn.Module):
    """Adds rows of a table, whose gradient is sparse, to the data of a model."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.table = torch.nn.Embedding(30, 8, sparse=True)
        self.net = Branching()

    def forward(self, tokens: torch.Tensor | None, data: torch.Tensor) -> torch.Tensor:
        return self.net(data if tokens is None else data + self.table(tokens).mean(1))


def embedding(uses: Callable[[int], bool]) -> list[torch.Tensor]:
    """Where a step does not use the table, its gradient is dense: zeros."""
    net = Embedded()
    sgd = optimizer(net, momentum=0)  # PyTorch adds no dense gradient to a sparse momentum
    for step in range(STEPS):
        sgd.zero_grad()
        tokens = torch.randint(30, (5, 1 + RANK), generator=torch.Generator().manual_seed(step))
        net(tokens if uses(step) else None, batch(step)).square().mean().backward()
        sgd.step()
    return weights(net)


def sparse() -> list[torch.Tensor]:
    return embedding(lambda step: True)


def sparse_but_for_some_steps() -> list[torch.Tensor]:
    return embedding(lambda step: step % 4 != 3)


def sparse_from_some_step_on() -> list[torch.Tensor]:
    return embedding(lambda step: step >= STEPS - 4)


def two_models() -> list[torch.Tensor]:
    """Parameters of the same names: of other shapes, and of the same."""
    nets = [model(1), model(2, width=8, depth=1), model(3)]
    sgds = [optimizer(net) for net in nets]
    for step in range(STEPS):
        for net, sgd in zip(nets, sgds):
            sgd.zero_grad()
            backward(net, step)
            sgd.step()
    return weights(*nets)


def uneven() -> list[torch.Tensor]:
    """A rank runs out of data; then all go on."""
    return joining(STEPS - 3 * RANK)


def joins_at_once() -> list[torch.Tensor]:
    return joining(STEPS * (RANK > 0))


def joining(steps_before: int) -> list[torch.Tensor]:
    net = model()
    sgd = optimizer(net)
    for part, steps in enumerate((steps_before, STEPS)):
        for step in range(steps):
            sgd.zero_grad()
            backward(net, step + 50 * part)
            sgd.step()
        if part == 0:
            hvd.join()
            hvd.broadcast_parameters(net.state_dict(), root_rank=0)
            hvd.broadcast_optimizer_state(sgd, root_rank=0)
    return weights(net)


SCENARIOS = (plain, other_branch_each_step, other_branch_on_each_rank, compressed,
             compressed_to_bfloat16, in_bfloat16, predivided, summed, grouped, grouped_by_lists,
             accumulated, with_other_operations, sparse, sparse_but_for_some_steps,
             sparse_from_some_step_on, two_models, uneven, joins_at_once)


def observe(scenario: Callable[[], list[torch.Tensor]]) -> tuple[list[torch.Tensor], dict]:
    before = horovod_opt.stats().planned_iterations
    results = scenario()
    observation = {
        "planned_iterations": horovod_opt.stats().planned_iterations - before,
        "states": sorted({plan.state for plan in graph_plans()}),
        "buckets": max((len(plan.buckets) for plan in graph_plans()), default=0),
    }
    hvd.allreduce(torch.zeros(1), name="met")
    return results, observation


def runs(mode: str) -> Iterator[tuple[str, tuple[list[torch.Tensor], dict]]]:
    for scenario in SCENARIOS:
        with running(hvd, mode):
            yield scenario.__name__, observe(scenario)


# Three ranks: mode off rounds to bfloat16 after each of two additions, topo once.
ROUNDED = {"compressed_to_bfloat16": 0.02, "in_bfloat16": 0.05}


def close(name: str, first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    bound = {"rtol": ROUNDED[name], "atol": ROUNDED[name]} if name in ROUNDED else {}
    return all(torch.allclose(a, b, **bound) for a, b in zip(first, second))


def same(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return len(first) == len(second) > 0 and all(map(torch.equal, first, second))


faulthandler.dump_traceback_later(100)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
off = {name: results for name, (results, _) in runs("off")}
report(**{
    name: {**observation, "same": same(off[name], results),
           "close": close(name, off[name], results),
           "sum": float(sum(tensor.double().sum() for tensor in results))}
    for name, (results, observation) in runs("topo")
})
