"""Where a training run is in its data, as a few numbers: less than 1 KiB of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from horovod_opt.io.errors import InputError
from horovod_opt.io.order.order import Order

VERSION = 1


class Place(NamedTuple):
    """The next position that is to be taken. position = samples: the epoch has ended."""

    epoch: int
    position: int


def state_of(order: Order, epoch: int, position: int) -> dict[str, Any]:
    """Everything that the rest of the run's order depends on, for JSON."""
    return {"version": VERSION, "epoch": epoch, "position": position, **_parameters(order)}


def check_state(state: Mapping[str, Any], order: Order) -> Place:
    """Where to go on.

    Raises:
        InputError: the state is of a newer version, of other data or other parameters, or no state.
            The text names each difference, with both values.
    """
    if not isinstance(state, Mapping) or not _is_number(state.get("version"), 1):
        raise InputError(f"this is no state of a data set: {str(state)[:200]}; remedy: give what "
                         "state_dict() returned")
    if state["version"] > VERSION:
        raise InputError(f"the state has version {state['version']}, this horovod-opt reads up to "
                         f"{VERSION}; remedy: install the version that wrote it, or a newer one")
    differences = [f"{name}: {state.get(name, 'missing')!r} in the state, {own!r} here"
                   for name, own in _parameters(order).items()
                   if name not in state or type(state[name]) is not type(own) or state[name] != own]
    if differences:
        raise InputError("the state is of another order, so samples would be lost or repeated: "
                         f"{'; '.join(differences)}; remedy: open the same data with the same "
                         "parameters, or start the epoch anew without the state")
    epoch, position = state.get("epoch"), state.get("position")
    if not _is_number(epoch, 0) or not _is_number(position, 0) or position > order.samples:
        raise InputError(f"the state has epoch={epoch!r}, position={position!r} of {order.samples} "
                         "samples; remedy: it is damaged, use another one")
    return Place(epoch, position)


def _parameters(order: Order) -> dict[str, Any]:
    return {"digest": order.identity.hex(), "samples": order.samples,
            "chunk_samples": order.chunk_samples, "shards": order.shards, "window": order.window,
            "seed": order.seed, "shuffle": order.shuffle}


def _is_number(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
