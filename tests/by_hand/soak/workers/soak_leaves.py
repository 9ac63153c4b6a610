"""Calls and steps that ranks leave by an exception, and what the others hear of it."""

from __future__ import annotations

from collections.abc import Callable, Collection

from common import RANK
from programs import Function, Leave, Training, parameter_at
from soak_checks import Checked, all_active
from soak_trouble import Left, Trouble

ABANDONED = "was abandoned:"


class Leaves:
    """Of one round. Where ranks do not leave alike, only what is planned is left: else the others
    wait for ever, as in mode off. What has been left is planned no more once the next begins."""

    def __init__(self, framework, trouble: Trouble, checked: Checked):
        self._framework, self._trouble, self._checked = framework, trouble, checked
        self._size = framework.hvd.size()
        self._in_tensorflow = framework.__name__ == "soak_tensorflow"
        self._left: set[str] = set()  # tensors whose last call, or step, ranks have left

    def is_done(self, tensors: Collection[str]) -> None:
        """All ranks have gone on from a call, or a step, to its end."""
        self._left.difference_update(tensors)

    def step(self, where: str, leave: Leave, step: int, phase: Training, trainer) -> bool:
        """Whether ranks have left it."""
        try:
            own = [parameter_at(phase, leave, rank, step) for rank in range(self._size)][RANK]
        except IndexError:
            return False
        needs_plans = not leave.is_alike() or phase.branches.m != 0
        is_synchronized = leave.again == "synchronized" and len(leave.ranks) < self._size
        again = "same" if is_synchronized else leave.again
        return self._leave(where, leave, own, trainer.tensors, needs_plans,
                           lambda: trainer.leave(step, own, again))

    def call(self, where: str, leave: Leave, function: Function, tensors: list[str],
             call: Callable) -> bool:
        """Whether ranks have left it, after the function's first collective."""
        own = leave.places[RANK]
        if own is not None:
            own = 1 + own % (len(function.collectives) - 1)
        is_chain = all(place - 1 in about.sources
                       for place, about in enumerate(function.collectives) if place)

        def leave_call() -> None:
            self._trouble.leave_at(own)
            call()

        needs_plans = not leave.is_alike() or not is_chain
        return self._leave(where, leave, own, tensors, needs_plans, leave_call)

    def _leave(self, where: str, leave: Leave, own: int | None, tensors: Collection[str],
               needs_plans: bool, call: Callable) -> bool:
        if needs_plans and (not self._left.isdisjoint(tensors) or not self._framework.agree(
                all_active(tensors), f"{where}, planned")):
            self._checked.kinds["not left, as it is not planned"] += 1
            return False
        self._left.update(tensors)
        try:
            call()
            error = ""
        except Exception as problem:
            error = str(problem) if not isinstance(problem, Left) else Left.__name__
            if Left.__name__ not in error and ABANDONED not in error:
                raise
        self._trouble.leave_at(None)
        print(f"rank {RANK}: {where}: left by {leave.ranks}", flush=True)
        self._judge(where, leave, own, error)
        by = "all" if len(leave.ranks) == self._size else "some"
        self._checked.kinds[f"left by {by}"] += 1
        if leave.elsewhere:
            self._framework.agree(True, f"{where}, elsewhere")
        return True

    def _judge(self, where: str, leave: Leave, own: int | None, error: str) -> None:
        """TensorFlow tells one of a step's errors, and abandons it when one rank has left."""
        if own is None:
            named = [f"rank {rank} has left it" in error for rank in leave.ranks]
            is_right = any(named) if self._in_tensorflow else all(named)
        else:
            is_right = Left.__name__ in error or (self._in_tensorflow and ABANDONED in error)
        if not is_right:
            self._checked.note(f"{where}: {leave.ranks} have left, error: {error or 'none'}")
