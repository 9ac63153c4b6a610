"""What horovod.common.elastic.ObjectState keeps of its attributes when it is committed.

Copies: what a script changes in place after a commit, as a list of losses, would change what
restore() goes back to. And restore() hands out copies of those, so that it can be called again.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import cloudpickle


def copied(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Raises TypeError, with the name of an attribute of which there can be no copy."""
    memo: dict[int, Any] = {}  # one, as attributes may share objects
    return {name: _copied(name, value, memo) for name, value in attributes.items()}


def _copied(name: str, value: Any, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, memo)
    except Exception:
        # As sync() does; a tensor that a graph computed can be pickled, for example.
        try:
            return cloudpickle.loads(cloudpickle.dumps(value))
        except Exception as error:
            raise TypeError(
                f"hvd.elastic: the state's attribute {name!r}, a {type(value).__name__}, can be "
                "neither copied nor pickled, so neither committed nor sent to other workers: "
                f"{type(error).__name__}: {error}. Keep it outside the state, or give the state "
                "what it can be made of") from error


def put(state: Any, saved: Mapping[str, Any]) -> None:
    """Sets the attributes to copies of what was saved. A list, dict or set stays the object that
    it is: the script may have another name for it."""
    for name, value in copied(saved).items():
        current = getattr(state, name, None)
        if current is not None and type(current) is type(value) and type(value) in _IN_PLACE:
            _IN_PLACE[type(value)](current, value)
        else:
            setattr(state, name, value)


def _refill(current: Any, value: Any) -> None:
    current.clear()
    current.update(value)


_IN_PLACE = {
    list: lambda current, value: current.__setitem__(slice(None), value),
    dict: _refill,
    set: _refill,
}
