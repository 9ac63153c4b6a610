"""hvd.broadcast_optimizer_state(): every rank gets the state of the root's optimizer.

The root describes it: everything pickled, with a number in place of each tensor and parameter, and
what each tensor is like. The others make, or keep, tensors like that and receive them. So nobody
makes a step to have a state, the state of a parameter comes from that parameter whatever order it
was made in, and what the root has not, nobody has.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import cloudpickle
import torch

from horovod_opt.pytorch.memory_order import order_of

NAME = "broadcast_optimizer_state"
_WIRE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Place(NamedTuple):
    """Where an optimizer has a tensor: a parameter, an entry of its state, or a group's option."""

    group: int
    parameter: Optional[int]  # by number in its group
    entry: Any = None


@dataclass(frozen=True)
class Tensor:
    """What a tensor of the root is like."""

    places: tuple[Place, ...]
    dtype: torch.dtype
    shape: torch.Size
    stride: Optional[tuple[int, ...]]  # None: row-major
    device: torch.device
    owner: Optional[Place]  # the parameter that it belongs to
    is_like_owner: bool  # in shape and strides
    is_beside_owner: bool  # on its device


@dataclass(frozen=True)
class Description:
    """Of an optimizer; `content`, pickled, is its state and its groups."""

    optimizer: str
    shapes: list[list[torch.Size]]  # of the parameters of each group
    tensors: list[Tensor]
    content: bytes


def broadcast(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """Raises ValueError on every rank if one cannot have the state of `root_rank`."""
    from horovod.torch import functions, mpi_ops

    is_root, problem, description, tensors = mpi_ops.rank() == root_rank, "", None, []
    if is_root:
        try:
            description, tensors = _describe(optimizer)
        except Exception as error:
            problem = (f"the optimizer's state or param_groups cannot be pickled: "
                       f"{type(error).__name__}: {error}. Keep there what can be")
    description = functions.broadcast_object(description, root_rank, name=NAME)
    if not is_root and description is not None:
        try:
            tensors, content = _prepare(optimizer, description)
        except Exception as error:
            problem = str(error) or type(error).__name__
    problems = functions.allgather_object(problem, name=f"{NAME}.problem")
    for rank, problem in enumerate(problems):
        if problem:
            raise ValueError(f"hvd.{NAME}: rank {rank}: {problem}")

    handles = [mpi_ops.broadcast_async_(_on_wire(tensor), root_rank, name=f"{NAME}.{number}")
               for number, tensor in enumerate(tensors)]
    for handle in handles:
        mpi_ops.synchronize(handle)
    if not is_root:
        _take(optimizer, content)


def _on_wire(tensor: torch.Tensor) -> torch.Tensor:
    """A view of a type that every operation takes."""
    tensor = tensor.detach()
    if tensor.element_size() not in _WIRE:
        tensor = torch.view_as_real(tensor)
    return tensor.view(_WIRE[tensor.element_size()])


def _places(optimizer: torch.optim.Optimizer) -> Iterator[tuple[Place, Any]]:
    """Every parameter; then what may be a tensor, where it has a name."""
    numbers = [[(Place(group, number), parameter)
                for number, parameter in enumerate(options["params"])]
               for group, options in enumerate(optimizer.param_groups)]
    for group in numbers:
        yield from group
    for number, (group, options) in enumerate(zip(numbers, optimizer.param_groups)):
        yield from ((Place(number, None, name), value) for name, value in options.items()
                    if name != "params")
        for place, parameter in group:
            state = optimizer.state.get(parameter)
            if isinstance(state, dict):
                yield from ((place._replace(entry=name), value) for name, value in state.items())


def _is_plain(value: Any) -> bool:
    """A tensor whose memory can be sent; others are pickled."""
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and (
        type(value) in (torch.Tensor, torch.nn.Parameter) and not value.is_quantized
        and value.device.type != "meta")


class _Pickler(cloudpickle.Pickler):
    """Writes a number in place of a tensor, and the place of a parameter."""

    def __init__(self, file: io.BytesIO, optimizer: torch.optim.Optimizer):
        super().__init__(file)
        self.tensors: list[torch.Tensor] = []
        self.places: list[list[Place]] = []
        self._numbers: dict[int, int] = {}
        self._parameters: dict[int, Place] = {}
        for place, value in _places(optimizer):
            if place.entry is None:
                self._parameters.setdefault(id(value), place)
            elif _is_plain(value) and id(value) not in self._parameters:
                self.places[self._number(value)].append(place)

    def _number(self, tensor: torch.Tensor) -> int:
        number = self._numbers.setdefault(id(tensor), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(tensor)  # which keeps its id
            self.places.append([])
        return number

    def persistent_id(self, value: Any) -> object:
        if id(value) in self._parameters and isinstance(value, torch.Tensor):
            return self._parameters[id(value)]
        return self._number(value) if _is_plain(value) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, optimizer: torch.optim.Optimizer, tensors: list):
        super().__init__(io.BytesIO(content))
        self._optimizer, self._tensors = optimizer, tensors

    def persistent_load(self, number: Any) -> torch.Tensor:
        if isinstance(number, Place):
            return self._optimizer.param_groups[number.group]["params"][number.parameter]
        return self._tensors[number]


def _describe(optimizer: torch.optim.Optimizer) -> tuple[Description, list[torch.Tensor]]:
    """On the root; and the tensors in the order of their numbers."""
    parameters = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    state = [(key, value) for key, value in optimizer.state.items()
             if key in parameters or not isinstance(key, torch.Tensor)]
    groups = [{name: value for name, value in group.items() if name != "params"}
              for group in optimizer.param_groups]
    file = io.BytesIO()
    pickler = _Pickler(file, optimizer)
    pickler.dump((state, groups))
    shapes = [[parameter.shape for parameter in group["params"]]
              for group in optimizer.param_groups]
    tensors = [tensor.detach().resolve_conj().resolve_neg() for tensor in pickler.tensors]
    descriptions = [_describe_tensor(optimizer, *pair) for pair in zip(tensors, pickler.places)]
    return Description(type(optimizer).__name__, shapes, descriptions, file.getvalue()), tensors


def _owner(optimizer: torch.optim.Optimizer, places: list[Place]) -> Optional[Place]:
    """The parameter of an entry of the state; the first one of a group."""
    for place in places:
        if place.parameter is not None or optimizer.param_groups[place.group]["params"]:
            return Place(place.group, place.parameter or 0)
    return None


def _parameter(optimizer: torch.optim.Optimizer, place: Place) -> torch.Tensor:
    return optimizer.param_groups[place.group]["params"][place.parameter]


def _describe_tensor(optimizer: torch.optim.Optimizer, tensor: torch.Tensor, places: list[Place]
                     ) -> Tensor:
    owner = _owner(optimizer, places) or _first(optimizer)
    parameter = None if owner is None else _parameter(optimizer, owner)
    is_dense = tensor.is_contiguous() or order_of(tensor) is not None
    return Tensor(
        tuple(places), tensor.dtype, tensor.shape, tensor.stride() if is_dense else None,
        tensor.device, owner,
        parameter is not None and is_dense and (tensor.shape, tensor.stride()) == (
            parameter.shape, parameter.stride()),
        parameter is not None and tensor.device == parameter.device)


def _first(optimizer: torch.optim.Optimizer) -> Optional[Place]:
    """The first parameter, beside which a nested tensor may lie, as those of LBFGS do."""
    return next((place for place, _ in _places(optimizer) if place.entry is None), None)


def _prepare(optimizer: torch.optim.Optimizer, description: Description
             ) -> tuple[list[torch.Tensor], tuple[list, list]]:
    """On the others: tensors to receive into, and the root's state and groups made of them.

    Raises ValueError if the optimizer is another one.
    """
    name = type(optimizer).__name__
    if name != description.optimizer:
        raise ValueError(f"the optimizer is {name}, that of the root {description.optimizer}: "
                         "make the same one on every rank")
    shapes = [[parameter.shape for parameter in group["params"]]
              for group in optimizer.param_groups]
    counts, root_counts = (list(map(len, groups)) for groups in (shapes, description.shapes))
    if counts != root_counts:
        raise ValueError(f"the optimizer has groups of {counts} parameters, that of the root of "
                         f"{root_counts}: make the same groups on every rank, also those of "
                         "add_param_group()")
    for group, (own, root) in enumerate(zip(shapes, description.shapes)):
        for number, (shape, root_shape) in enumerate(zip(own, root)):
            if shape != root_shape:
                raise ValueError(f"parameter {number} of group {group} has shape {list(shape)}, "
                                 f"that of the root {list(root_shape)}: make the same model on "
                                 "every rank")
    existing = {place: value for place, value in _places(optimizer) if place.entry is not None}
    used: set[int] = {id(parameter) for group in optimizer.param_groups
                      for parameter in group["params"]}
    tensors = []
    for tensor in description.tensors:
        tensors.append(_receiver(optimizer, tensor, existing, used))
        used.add(id(tensors[-1]))
    return tensors, _Unpickler(description.content, optimizer, tensors).load()


def _receiver(optimizer: torch.optim.Optimizer, tensor: Tensor, existing: dict[Place, Any],
              used: set[int]) -> torch.Tensor:
    """The tensor that is there, which a captured graph or a scheduler may hold; or a new one."""
    parameter = None if tensor.owner is None else _parameter(optimizer, tensor.owner)
    device = parameter.device if tensor.is_beside_owner else tensor.device
    for place in tensor.places:
        value = existing.get(place)
        if _is_plain(value) and id(value) not in used and (
                (value.dtype, value.shape, value.device) == (tensor.dtype, tensor.shape, device)
                and (value.is_contiguous() or order_of(value) is not None)):
            return value
    stride = tensor.stride
    if tensor.is_like_owner and (parameter.is_contiguous() or order_of(parameter) is not None):
        stride = parameter.stride()
    if stride is None:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=device)


def _take(optimizer: torch.optim.Optimizer, content: tuple[list, list]) -> None:
    state, groups = content
    optimizer.state.clear()
    optimizer.state.update(state)
    for group, options in zip(optimizer.param_groups, groups):
        for name in group.keys() - options.keys() - {"params"}:
            del group[name]
        group.update(options)
