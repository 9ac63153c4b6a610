"""Trainings with PyTorch."""

from __future__ import annotations

import bits
import horovod.torch as hvd
import model
import numpy as np
import torch
from common import RANK
from programs import Training
from soak_layouts import flattened, lay_out, place_gradients
from soak_torch import Call, Sets, compile_function
from soak_trouble import Left, Trouble


class Trainer:
    """Steps of a DistributedOptimizer at the rate 1."""

    def __init__(self, about: Training, name: str, sets: Sets, trouble: Trouble):
        self._about, self._name, self._trouble = about, name, trouble
        self._start([np.zeros(size, np.float32) for size in about.parameters])
        self._beside: Call | None = None
        if about.beside is not None:
            self._beside = compile_function(about.beside, f"{name}.beside", sets, trouble)

    def _start(self, values: list[np.ndarray]) -> None:
        about, layouts = self._about, self._about.layouts or ("",) * len(self._about.parameters)
        self._weights = [torch.nn.Parameter(lay_out(
            torch.from_numpy(value).to(getattr(torch, about.dtype)), layout))
            for value, layout in zip(values, layouts)]
        if about.gradients:
            place_gradients(self._weights, about.gradients)
        self._named = [(f"{self._name}.w{i}", weight) for i, weight in enumerate(self._weights)]
        self._wrap()
        for place, weight in enumerate(self._weights):
            weight.register_hook(lambda _, place=place: self._trouble.visit(place))

    def _wrap(self) -> None:
        about = self._about
        self._optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(self._weights, lr=1.0), named_parameters=self._named,
            compression=getattr(hvd.Compression, about.compression),
            backward_passes_per_step=about.passes, op=getattr(hvd, about.op),
            gradient_predivide_factor=about.predivide, num_groups=about.groups)

    @property
    def tensors(self) -> list[str]:
        return [f"allreduce.{name}" for name, _ in self._named]

    def step(self, step: int) -> list[np.ndarray]:
        """The weights after it, or the gradients if they are drawn as bits; then what was called
        beside it."""
        self._optimizer.zero_grad(set_to_none=not self._about.gradients)
        if self._about.bits:
            return self._step_of_bits(step)
        self._go_back(step)
        beside = []
        if self._beside is not None:
            beside = self._beside(model.number(RANK, step), model.takes_branches(step), step)
        self._optimizer.step()
        return [*self.weights(), *beside]

    def weights(self) -> list[np.ndarray]:
        return [flattened(weight).numpy() for weight in self._weights]

    def leave(self, step: int, place: int | None, again: str) -> None:
        """As step(), without what is called beside; this rank leaves it at that gradient. Raises
        what ends it, ready to go on."""
        self._optimizer.zero_grad(set_to_none=not self._about.gradients)
        try:
            self._go_back(step, place)
            self._optimizer.step()
        except (Left, hvd.HorovodInternalError):
            self._begin_again(again)
            raise

    def _begin_again(self, again: str) -> None:
        if again == "another":
            return self._start(self.weights())
        if again == "synchronized":
            return self._optimizer.synchronize()
        if again == "replaced":
            self._wrap()
        else:
            self._optimizer.load_state_dict(self._optimizer.state_dict())
        for weight in self._weights:
            if not self._about.gradients:
                weight.grad = None
            elif weight.grad is not None:  # it has had none yet if it is not among those placed
                weight.grad.zero_()
        return None

    def _go_back(self, step: int, leave_at: int | None = None) -> None:
        for pass_ in range(self._about.passes):
            if pass_ == self._about.passes - 1:  # in which gradients are sent
                self._trouble.leave_at(leave_at)
            loss = sum(
                (weight * torch.from_numpy(model.gradient(self._about, RANK, step, pass_, i)
                                           ).reshape(weight.shape)).sum()
                for i, weight in enumerate(self._weights)
                if self._about.branches.takes(RANK, step, i))
            loss.backward()

    def _step_of_bits(self, step: int) -> list[np.ndarray]:
        about = self._about
        hooks = []
        for place, weight in enumerate(self._weights):
            weight.data.zero_()
            words = bits.gradient(about.bits + place, about.dtype, RANK, hvd.size(),
                                  weight.numel(), step)
            drawn = torch.from_numpy(words.view(np.uint8)).view(weight.dtype)
            hooks.append(weight.register_hook(
                lambda gradient, drawn=drawn: drawn.reshape(gradient.shape)))
        sum(weight.sum() for weight in self._weights).backward()
        for hook in hooks:
            hook.remove()
        self._optimizer.step()
        return [flattened(weight.grad).view(torch.uint8).numpy().view(bits.word(about.dtype))
                for weight in self._weights]

    def broadcast(self) -> None:
        hvd.broadcast_parameters(self._named, root_rank=0)
