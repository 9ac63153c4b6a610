"""What a framework's native library does with plans."""

from __future__ import annotations

import ctypes
import os

from graph_analysis.bucket_sizes import DEFAULT_LIMITS, Limits
from horovod_opt import settings


def bucket_limits() -> Limits:
    """The size of a bucket of several tensors: upstream's setting wherever they are, but not its
    default. Raises SettingsError."""
    threshold = settings.fusion_threshold(os.environ)
    return DEFAULT_LIMITS if threshold is None else Limits.same(threshold)


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

    def reduces_on_gpus(self) -> bool:
        """What is on a GPU is reduced there; otherwise in main memory."""
        calls = self._lib.horovod_cuda_built, self._lib.horovod_rocm_built
        for call in calls:
            call.restype = ctypes.c_bool
        return any(call() for call in calls)

    def is_first_rank(self) -> bool:
        return self._lib.horovod_rank() == 0
