"""Gradients, or Adasum's updates, on their way of a step that a script has left, by an exception
that it caught or with a batch that it left out, as it goes on."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

POLL_SECONDS = 0.001
LATE_SECONDS = 1.0  # in which all ranks that leave a step alike have sent what they send
# Of upstream's error for a name that is sent again before the last one of it has been reduced.
UNDER_WAY = "with the same name as another tensor that is currently being processed"

_late_updates: dict[str, int] = {}  # by the parameter's name: handles of steps that were left


def after_the_last_of_its_name(send: Callable) -> Callable:
    """A step that an exception has ended leaves gradients on their way, whose names the next one
    sends again. If other ranks never send them, this one waits until stalls are reported."""

    @functools.wraps(send)
    def wrapper(optimizer: Any, *arguments: Any) -> Any:
        until = None
        while True:
            try:
                return send(optimizer, *arguments)
            except ValueError as error:
                until = until or time.monotonic() + _stall_seconds()
                if UNDER_WAY not in str(error) or time.monotonic() > until:
                    raise
            time.sleep(POLL_SECONDS)

    return wrapper


def keeps_values(send: Callable) -> Callable:
    """Of Adasum, which computes and sends the update of a parameter in its own memory: in memory of
    the update's own, so that a parameter has its values until step(), also if that never comes."""

    @functools.wraps(send)
    def wrapper(optimizer: Any, parameter: torch.Tensor) -> Any:
        _await_late_update(optimizer._parameter_names[parameter])
        values, groups = parameter.data, [group["params"] for group in optimizer.param_groups]
        parameter.data = values.clone()
        try:
            return send(optimizer, parameter)
        finally:
            parameter.data = values
            for group, parameters in zip(optimizer.param_groups, groups):
                group["params"] = parameters

    return wrapper


def give_updates_up(handles: dict, names: dict) -> None:
    """Updates of Adasum that are on their way are nobody's any more."""
    for parameter, (handle, _) in handles.items():
        if handle is not None:
            _late_updates[names[parameter]] = handle
    handles.clear()


def _await_late_update(name: str) -> None:
    """As after_the_last_of_its_name(); but an update is computed only once."""
    from horovod.torch import mpi_ops

    handle = _late_updates.pop(name, None)
    if handle is not None and _ends(handle, time.monotonic() + _stall_seconds()):
        with contextlib.suppress(mpi_ops.HorovodInternalError):
            mpi_ops.synchronize(handle)


def gives_step_up(load_state_dict: Callable) -> Callable:
    """Of a script that goes on after an exception: upstream forgets what is on its way."""

    @functools.wraps(load_state_dict)
    def wrapper(optimizer: Any, *arguments: Any, **named: Any) -> Any:
        handles = optimizer._handles
        _take_late_sums(handles)
        result = load_state_dict(optimizer, *arguments, **named)
        optimizer._handles = handles  # what is empty now, in the place of another one
        return result

    return wrapper


def detach_late_sums(handles: dict) -> None:
    """Ends the reductions that are there; gradients of the others get memory of their own."""
    from horovod.torch import mpi_ops

    for parameters, handle in _in_place(handles):
        with contextlib.suppress(mpi_ops.HorovodInternalError, ValueError):
            if mpi_ops.poll(handle):
                mpi_ops.synchronize(handle)
                continue
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad = parameter.grad.clone()
    handles.clear()


def _take_late_sums(handles: dict) -> None:
    """Nothing is written into a gradient any more once the step that it was sent in is given up.
    What other ranks have not sent may never come: it is waited for LATE_SECONDS."""
    until = time.monotonic() + LATE_SECONDS
    for _, handle in _in_place(handles):
        _ends(handle, until)
    detach_late_sums(handles)


def _ends(handle: int, until: float) -> bool:
    """Whether the reduction has ended, which it may do `until` then, as time.monotonic()."""
    from horovod.torch import mpi_ops

    while not mpi_ops.poll(handle):
        if time.monotonic() >= until:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _in_place(handles: dict) -> Iterator[tuple[tuple[torch.Tensor, ...], int]]:
    """Parameters into whose gradients sums are written, and the handle of each reduction."""
    for key, (handle, _) in handles.items():
        if handle is not None and not callable(handle):
            yield key if isinstance(key, tuple) else (key,), handle


def _stall_seconds() -> float:
    try:
        return float(os.environ.get("HOROVOD_STALL_CHECK_TIME_SECONDS", 60))
    except ValueError:
        return 60
