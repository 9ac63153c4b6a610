"""The order of a tensor's elements, in memory and on the wire.

Horovod sends memory as it lies. An operation that is called on a tensor sends the elements
row-major, whatever the layout: ranks may differ in theirs. So a tensor in another layout is copied,
and what works in place is copied back.

A gradient is sent in the memory order of its parameter, which ranks compare when
hvd.DistributedOptimizer is made: a channels_last model is reduced without a copy, as by PyTorch's
DistributedDataParallel.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Optional

import torch

Order = Optional[tuple[int, ...]]  # dimensions, the slowest first; None: row-major


def order_of(tensor: torch.Tensor) -> Order:
    """What has holes, or elements that share memory, is sent row-major. Dimensions of size 1, whose
    strides mean nothing, come first."""
    if tensor.layout is not torch.strided or tensor.is_contiguous():
        return None
    order = tuple(sorted(range(tensor.dim()), key=lambda dim: (
        (1, -tensor.stride(dim), dim) if tensor.size(dim) != 1 else (0, 0, dim))))
    return order if tensor.detach().permute(order).is_contiguous() else None


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def row_major(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` itself; a copy if its elements lie otherwise, or are negated when they are read."""
    if tensor.is_contiguous() and not tensor.is_neg():
        return tensor
    return tensor.detach().resolve_neg().contiguous()


class _Return:
    """A result that is copied back into tensors of another layout once it is there."""

    def __init__(self, received: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]):
        self._received, self._tensors = received, tensors

    def write(self) -> Sequence[torch.Tensor]:
        for received, tensor in zip(self._received, self._tensors):
            if received is not tensor:
                _write(received, tensor)
        return self._tensors


class _ReturnOfOne(_Return):
    def write(self) -> torch.Tensor:
        return super().write()[0]


def on_wire(tensor: torch.Tensor, output: torch.Tensor) -> tuple[Any, Any, Any]:
    """What an operation sends, what it writes to, and its result: for result_of()."""
    if tensor.is_contiguous() and not tensor.is_neg():
        return tensor, output, output
    sent = row_major(tensor)
    if output is not tensor:
        return sent, output, output
    return sent, sent, _ReturnOfOne((sent,), (tensor,))


def group_on_wire(tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
                  ) -> tuple[Any, Any, Any]:
    """The same for a group."""
    sent = [row_major(tensor) for tensor in tensors]
    if outputs is not tensors or all(map(operator.is_, sent, tensors)):
        return sent, outputs, tuple(outputs)
    return sent, sent, _Return(sent, tuple(tensors))


def result_of(result: Any) -> Any:
    """What hvd.synchronize() returns, when the operation is done."""
    return result.write() if isinstance(result, _Return) else result


def _may_share_memory(tensor: torch.Tensor) -> bool:
    """Whether elements may, as after expand() or unfold()."""
    end = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride < end:
                return True
            end += stride * (size - 1)
    return False


def _write(source: torch.Tensor, target: torch.Tensor) -> None:
    """Elements that share memory get one value: it has to be that of all."""
    first = tuple(slice(1) if stride == 0 else slice(None) for stride in target.stride())
    target.detach()[first].copy_(source[first])
    if _may_share_memory(target):
        kept = target.detach()
        if not ((kept == source) | ((kept != kept) & (source != source))).all():
            from horovod.torch.mpi_ops import rank

            raise ValueError(
                f"rank {rank()}: a tensor of shape {list(target.shape)} and strides "
                f"{list(target.stride())} cannot take what it receives in place: its elements share"
                " memory, and are to differ. Give it memory of its own: tensor.clone()")


class GradientOrders:
    """For an optimizer: the order in which the gradient of each parameter is sent, which is that of
    the parameter's memory when the optimizer is made."""

    def __init__(self) -> None:
        self._orders: dict[torch.Tensor, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._layouts: dict[torch.Tensor, list] = {}
        self._copied: set[torch.Tensor] = set()  # in this step
        self._agreed: object = None  # with the ranks of which hvd.init()

    def add(self, parameters: Iterable[torch.Tensor]) -> None:
        for parameter in parameters:
            order = order_of(parameter)
            if order is not None:
                self._orders[parameter] = order, inverse(order)
            self._layouts[parameter] = [parameter.shape, parameter.stride(), order]
            self._agreed = None

    def to_wire(self, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """A view of `gradient` to send, which is contiguous; of a copy if it has another order."""
        if not self._orders and gradient.is_contiguous():
            return gradient
        orders = self._orders.get(parameter)
        if orders is not None:
            gradient = gradient.permute(orders[0])
        sent = row_major(gradient)
        if sent is not gradient:
            self._copied.add(parameter)
        return sent

    def from_wire(self, parameter: torch.Tensor, received: torch.Tensor) -> torch.Tensor:
        """The same elements in the shape of `parameter`."""
        orders = self._orders.get(parameter)
        return received if orders is None else received.permute(orders[1])

    def set_gradient(self, parameter: torch.Tensor, received: torch.Tensor) -> None:
        """`received`, from the wire, is the gradient of `parameter` from now on."""
        if received is parameter.grad:  # reduced in place
            return
        received = self.from_wire(parameter, received)
        if parameter in self._copied:
            self._copied.remove(parameter)
            if not _may_share_memory(parameter.grad):
                # It may be a view of memory that the script looks at.
                parameter.grad.copy_(received)
                return
        parameter.grad.set_(received)

    def agree(self, names: dict[torch.Tensor, str], process_set: Any) -> None:
        """Once after each hvd.init(), and when there are new parameters. On all ranks of the set.

        Raises ValueError on every rank if they differ.
        """
        from horovod.torch import mpi_ops

        start = mpi_ops._ended_handles  # a new object after each hvd.init() that starts Horovod
        if self._agreed is start:
            return

        def gather(layouts: dict[str, list]) -> list[dict]:
            text = json.dumps(layouts) + "\n"
            data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
            everything = mpi_ops.allgather(data, name="DistributedOptimizer.memory_order",
                                           process_set=process_set)
            return [json.loads(line) for line in bytes(everything.tolist()).decode().splitlines()]

        layouts = {names[parameter]: layout for parameter, layout in self._layouts.items()}
        other = {name: layout for name, layout in layouts.items() if layout[2] is not None}
        # Mostly all are row-major everywhere, and a few bytes say so.
        problem = _difference(gather(layouts), process_set.ranks) if any(gather(other)) else ""
        if problem:
            raise ValueError(problem)
        self._agreed = start


def _difference(layouts: Sequence[dict[str, list]], ranks: Sequence[int]) -> str:
    """Of ranks that have a parameter of the same name and shape in another order. One that not all
    of them have is another error, in the first step."""
    first = layouts[0]
    for rank, layout in zip(ranks[1:], layouts[1:]):
        for name in (name for name in first if name in layout):
            (shape, strides, order), (other_shape, other_strides, other_order) = (
                first[name], layout[name])
            if shape == other_shape and order != other_order:
                return (f"hvd.DistributedOptimizer: parameter {name!r} of shape {shape} has strides"
                        f" {strides} on rank {ranks[0]} and {other_strides} on rank {rank}. Its "
                        "gradient is sent in the order of its memory: give the model one memory "
                        "format on every rank, as by model.to(memory_format=...), before the "
                        "optimizer is made")
    return ""
