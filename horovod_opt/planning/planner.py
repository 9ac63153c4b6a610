"""What a framework's native library does with plans."""

from __future__ import annotations

import ctypes
import os

from graph_analysis.analysis import DEFAULT_THRESHOLD
from horovod_opt import settings


def bucket_bytes() -> int:
    """The size of a bucket of several tensors: upstream's setting, but not its default. Raises
    SettingsError."""
    threshold = settings.fusion_threshold(os.environ)
    return DEFAULT_THRESHOLD if threshold is None else threshold


class Planner:
    """Hands plans over. One per library; for any thread."""

    def __init__(self, lib: ctypes.CDLL):
        self._lib = lib

    def add(self, text: str) -> None:
        """A plan as plan_text.native_text() writes it."""
        problem = self._lib.horovod_opt_add_plan(text.encode(errors="replace"))
        if problem:
            raise RuntimeError(f"the native side does not understand a plan: {problem.decode()}")

    def remove(self, text: str) -> None:
        """The graph of a plan is gone; `text` as it was added."""
        self._lib.horovod_opt_remove_plan(text.encode(errors="replace"))

    def reject(self, plan: str, reason: str) -> None:
        """From now on the plan with that hash stays negotiated, on every rank."""
        self._lib.horovod_opt_reject_plan(plan.encode(), reason.encode())

    def leave_out(self, key: int, reason: str) -> None:
        """The allreduce with that key does not come; other calls come in its place."""
        self._lib.horovod_opt_leave_out(key, reason.encode())

    def is_first_rank(self) -> bool:
        return self._lib.horovod_rank() == 0
