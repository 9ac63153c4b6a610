"""Where a training run is in its data, as a few numbers: less than 1 KiB of JSON.

    version 2: epoch, position; digest, samples, seed and shuffle of the data and the user;
        chunk_samples, shards and window, which the user may have left out; rest, if the epoch was
        begun by version 1: its chunk_samples, shards and window
    version 1: the same without rest, of orders by the rules of version 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Optional

from horovod_opt.io.errors import InputError, tell
from horovod_opt.io.order.choice import Given
from horovod_opt.io.order.order import VERSION, Order

_CHOSEN = Given._fields


class Rest(NamedTuple):
    """The order of an epoch that was begun by rules of before."""

    epoch: int
    order: Order


class Place(NamedTuple):
    """The next position that is to be taken, and the order from there on. position = samples: the
    epoch has ended."""

    epoch: int
    position: int
    order: Order
    rest: Optional[Rest] = None


def state_of(order: Order, epoch: int, position: int, rest: Optional[Rest] = None
             ) -> dict[str, Any]:
    """Everything that the rest of the run's order depends on, for JSON. `rest` counts in its
    epoch."""
    state = {"version": VERSION, "epoch": epoch, "position": position, **_identity(order),
             **_chosen(order)}
    if rest is not None and rest.epoch == epoch:
        state["rest"] = _chosen(rest.order)
    return state


def check_state(state: Mapping[str, Any], order: Order, given: Given,
                choose: Optional[Callable[[Given], Order]]) -> Place:
    """Where to go on. `order` is this run's own; what it was not `given` is taken from the state.
    Behind the epoch of a state of version 1 comes an order of the same chunks and shards, whose
    window, if not given, `choose` finds.

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
    own = {**_identity(order), **{name: value for name, value in given._asdict().items()
                                  if value is not None}}
    differences = [f"{name}: {tell(state.get(name, 'missing'))} in the state, {value!r} here"
                   for name, value in own.items()
                   if name not in state or type(state[name]) is not type(value)
                   or state[name] != value]
    if differences:
        raise InputError("the state is of another order, so samples would be lost or repeated: "
                         f"{'; '.join(differences)}; remedy: open the same data with the same "
                         "parameters, or start the epoch anew without the state")
    epoch, position = state.get("epoch"), state.get("position")
    if not _is_number(epoch, 0) or not _is_number(position, 0) or position > order.samples:
        raise InputError(f"the state has epoch={tell(epoch)}, position={tell(position)} of "
                         f"{order.samples} samples; remedy: it is damaged, use another one")
    of_state = _with(order, state)
    if state["version"] == 1 and order.shuffle:
        kept = Given(of_state.chunk_samples, of_state.shards, given.window)
        new, rest = choose(kept), replace(of_state, version=1)
    else:
        new, rest = of_state, None
        if "rest" in state:
            rest = replace(_with(order, state["rest"]), version=1)
    begun = 0 < position < order.samples
    return Place(epoch, position, new, Rest(epoch, rest) if rest is not None and begun else None)


def _identity(order: Order) -> dict[str, Any]:
    return {"digest": order.identity.hex(), "samples": order.samples, "seed": order.seed,
            "shuffle": order.shuffle}


def _chosen(order: Order) -> dict[str, Any]:
    return {name: getattr(order, name) for name in _CHOSEN}


def _with(order: Order, state: Any) -> Order:
    """What the user may leave out, from a state. Raises InputError for values that cannot be."""
    if not isinstance(state, Mapping) or not all(_is_number(state.get(name), 1)
                                                 for name in _CHOSEN):
        values = {name: state.get(name, "missing") if isinstance(state, Mapping) else state
                  for name in _CHOSEN}
        raise InputError(f"the state has {values}; remedy: it is damaged, use another one")
    try:
        return replace(order, **{name: state[name] for name in _CHOSEN})
    except InputError as error:
        raise InputError(f"the state is damaged: {error}") from error


def _is_number(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
