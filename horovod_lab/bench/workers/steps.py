"""Runs one kind of training step: steps/s, and the rounds of negotiation in the measured window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rank import Rank

# Steps of a few milliseconds: so many that in mode topo no vote on plans is left for the window.
WARM_UP = 50


class NotSupported(Exception):
    """The installed Horovod cannot run this kind of step; says why, in its words."""


def run(workload: str, framework: str, build: Callable[[Rank], Callable[[], Any]],
        **init: Any) -> None:
    """`build` makes the step, which returns when it is done; `init` is for hvd.init()."""
    rank = Rank(workload, framework)
    rank.init(**init)
    try:
        step = build(rank)
    except NotSupported as reason:
        rank.report({"not_supported": str(reason)})
        return
    window = rank.measure(step, WARM_UP)
    rank.report({"steps_per_second": 1 / window.seconds, "step_seconds": window.seconds,
                 "steps": window.steps}, counters=window.counters)
