"""Programs with parameters and gradients in other memory layouts, and with steps in hooks of the
backward pass."""

from __future__ import annotations

import copy

import horovod.torch as hvd
import torch
from common import RANK
from torch_optimizer_run import STEPS, Program, Run, draw

from horovod_opt.pytorch.memory_order import order_of


class Images(torch.nn.Module):
    """Convolutions, the last one 1 x 1, of which every layout is contiguous."""

    def __init__(self, dims: int):
        super().__init__()
        self.dims = dims
        convolution = torch.nn.Conv2d if dims == 2 else torch.nn.Conv3d
        self.layers = torch.nn.Sequential(
            convolution(3, 4, 2), torch.nn.Tanh(), convolution(4, 2, 1)).double()

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.layers(data.reshape(1, 3, *[2] * self.dims).repeat(
            1, 1, *[2] * self.dims).to(memory_format=self.memory_format()))

    def memory_format(self) -> torch.memory_format:
        return torch.channels_last if self.dims == 2 else torch.channels_last_3d


def images(dims: int, **how: object) -> Program:
    def program(run: Run) -> object:
        run.net = Images(dims)
        run.net.to(memory_format=run.net.memory_format())
        orders = [order_of(parameter) for parameter in run.net.parameters()]
        assert orders[0] is not None
        optimizer = run.wrap(torch.optim.SGD(run.net.parameters(), lr=0.1, momentum=0.9), **(
            how if run.distributed else {}))
        run.train(optimizer, shape=(3, 2 ** dims))
        if run.distributed:
            hvd.broadcast_parameters(run.net.state_dict(), root_rank=0)
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        run.train(optimizer, 9, shape=(3, 2 ** dims))
        assert orders == [order_of(parameter) for parameter in run.net.parameters()]
        assert orders == [order_of(parameter.grad) for parameter in run.net.parameters()]
        return run.weights()

    return program


class Views(torch.nn.Module):
    """Parameters that are views: transposed, permuted, and with holes."""

    def __init__(self):
        super().__init__()
        self.transposed = torch.nn.Parameter(draw(1, shape=(4, 3)).t())
        self.permuted = torch.nn.Parameter(draw(2, shape=(2, 3, 4)).permute(1, 2, 0))
        self.sliced = torch.nn.Parameter(draw(3, shape=(6, 8))[::2, ::2])
        self.scalar = torch.nn.Parameter(draw(4, shape=(2,))[1])
        self.empty = torch.nn.Parameter(draw(5, shape=(0, 4)).t())

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        total = self.transposed + self.permuted.sum(2) + self.sliced * self.scalar
        return data @ total + self.empty.sum()


def parameters_that_are_views(run: Run) -> object:
    run.net = Views()
    return run.train(run.sgd(), 9)


def format_changes(run: Run) -> object:
    """After the optimizer was made: gradients are sent as before."""
    run.net = Images(2)
    optimizer = run.sgd()
    run.train(optimizer, 3, shape=(3, 4))
    run.net.to(memory_format=torch.channels_last)
    run.train(optimizer, 3, first=3, shape=(3, 4))
    run.net.to(memory_format=torch.contiguous_format)
    return run.train(optimizer, 3, first=6, shape=(3, 4))


def assigned_gradients(run: Run) -> object:
    """Of which the memory is the script's: transposed, sliced, expanded, and of one flat buffer."""
    optimizer = run.sgd()
    parameters = list(run.net.parameters())
    flat = torch.zeros(sum(map(torch.numel, parameters)), dtype=torch.float64)
    parts = flat.split([parameter.numel() for parameter in parameters])
    found = []
    for step in range(9):
        optimizer.zero_grad()
        gradients = torch.autograd.grad(run.loss(step), parameters)
        for number, (parameter, gradient) in enumerate(zip(parameters, gradients)):
            turned = gradient if step % 3 == 0 else gradient.t().contiguous().t()
            if step % 3 == 1 and number == 1:
                turned = torch.stack([gradient, gradient], 1)[:, 0]
            if step % 3 == 2 and number == 3:
                turned = gradient.sum().expand(gradient.shape)
            if step % 3 == 0:
                turned = parts[number].view(parameter.shape[::-1]).t().copy_(gradient)
            parameter.grad = turned
        optimizer.step()
        if step % 3 == 0:
            found.append(flat.clone())  # reduced
    return found, run.weights()


def sparse_as_dense(run: Run) -> object:
    """Of a table that is transposed in memory."""
    run.net = torch.nn.Embedding(6, 2, sparse=True, _weight=draw(1, shape=(2, 6)).t())
    sgd = torch.optim.SGD(run.net.parameters(), lr=0.1)
    optimizer = run.wrap(sgd, **({"sparse_as_dense": True} if run.distributed else {}))
    net = run.net
    for step in range(STEPS):
        optimizer.zero_grad()
        run.loss(step, lambda data: net((data[:, 0].abs() * 3).long() % 6)).backward()
        optimizer.step()
    return run.weights()


def in_backward(set_to_none: bool, hook_first: bool) -> Program:
    """An optimizer for each parameter, which a hook steps as soon as the gradient is there."""

    def program(run: Run) -> object:
        optimizers: dict[torch.Tensor, torch.optim.Optimizer] = {}

        def hook(parameter: torch.Tensor) -> None:
            optimizers[parameter].step()
            optimizers[parameter].zero_grad(set_to_none)

        def add_hooks() -> None:
            for parameter in run.net.parameters():
                parameter.register_post_accumulate_grad_hook(hook)

        if hook_first:
            add_hooks()
        for name, parameter in run.net.named_parameters():
            named = {"named_parameters": [(name, parameter)]} if run.distributed else {}
            optimizers[parameter] = run.wrap(
                torch.optim.SGD([parameter], lr=0.1, momentum=0.9), **named)
        if not hook_first:
            add_hooks()
        for step in range(9):
            run.loss(step).backward()
        return run.weights()

    return program


def in_the_last_hook(run: Run) -> object:
    """One optimizer, stepped by the hook of the parameter whose gradient is there last."""
    optimizer = run.sgd()
    run.net[0].weight.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    for step in range(STEPS):
        run.net.zero_grad()
        torch.autograd.backward(run.loss(step), inputs=list(run.net.parameters())[::-1])
    return run.weights()


def layouts_differ() -> None:
    """On rank 1 alone, the second convolution is channels_last."""
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 2), torch.nn.Conv2d(4, 3, 2))
    if RANK == 1:
        net[1].to(memory_format=torch.channels_last)
    hvd.broadcast_parameters(net.state_dict(), root_rank=1)
    same = hvd.allgather(net[1].weight.detach().reshape(1, -1), name="same")
    assert torch.equal(*same)
    hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1),
                             named_parameters=net.named_parameters())


def layouts_of_copies_differ() -> None:
    """A copy may be made on one rank alone: ranks compare them in the first step."""
    net = torch.nn.Linear(2, 2, bias=False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1),
                                         named_parameters=net.named_parameters())
    if RANK == 1:
        net.weight.data = net.weight.data.t().contiguous().t()
    net, copied = copy.deepcopy((net, optimizer))
    net(torch.ones(1, 2)).sum().backward()
    copied.step()


def step_in_a_hook() -> None:
    run = Run(True)
    optimizer = run.wrap(torch.optim.SGD(run.net.parameters(), lr=0.1),
                         named_parameters=run.net.named_parameters())
    run.net[2].weight.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    try:
        run.loss(0).backward()
    finally:
        optimizer.synchronize()  # what is on its way


PROGRAMS: dict[str, Program] = {
    "channels_last": images(2), "channels_last_3d": images(3), "channels_last, groups": images(
        2, groups=2),
    **{f"in backward, {set_to_none}, {hook_first}": in_backward(set_to_none, hook_first)
       for set_to_none in (True, False) for hook_first in (True, False)},
    **{program.__name__: program for program in (
        parameters_that_are_views, format_changes, assigned_gradients, sparse_as_dense,
        in_the_last_hook)},
}
ERRORS = (layouts_differ, layouts_of_copies_differ, step_in_a_hook)
