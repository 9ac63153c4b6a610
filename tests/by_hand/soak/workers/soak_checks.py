"""What a round has given so far, beside what it must give."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import bits
import numpy as np

import horovod_opt

DIFFERENCES = 5  # more of them say no more


class Checked:
    """`is_strict`: what is planned has one result for every value, the same on all ranks."""

    def __init__(self, is_strict: bool) -> None:
        self._is_strict = is_strict
        self.results, self.different = 0, []
        self.kinds: Counter[str] = Counter()
        self.digests: dict[str, int] = {}

    def note(self, text: str) -> None:
        if len(self.different) < DIFFERENCES:
            self.different.append(text)

    def compare(self, where: str, actual: list[np.ndarray],
                expected: Sequence[np.ndarray | bits.Result],
                planned: Collection[int] = ()) -> None:
        """`planned`: places of bits that were planned."""
        assert len(actual) == len(expected), where
        self.results += len(actual)
        for place, (array, reference) in enumerate(zip(actual, expected)):
            if isinstance(reference, bits.Result):
                self._compare_bits(f"{where}, {place}", array, reference, place in planned)
            elif ((array.dtype, array.shape) != (reference.dtype, reference.shape)
                    or array.tobytes() != reference.tobytes()):
                self.note(f"{where}, {place}: {array.dtype}{list(array.shape)} {array.ravel()[:6]},"
                          f" expected {reference.dtype}{list(reference.shape)} "
                          f"{reference.ravel()[:6]}")

    def _compare_bits(self, where: str, words: np.ndarray, right: bits.Result,
                      planned: bool) -> None:
        if words.shape != right.words.shape:
            return self.note(f"{where}: {words.shape}, expected {right.words.shape}")
        wrong = right.differences(words, planned)
        if wrong.size:
            shown = [f"{words[i]:#x}, not {right.words[i]:#x}{' (a NaN)' * bool(right.nans[i])}"
                     for i in wrong[:4]]
            self.note(f"{where}, {right.dtype}{', planned' * planned}: {wrong.size} of "
                      f"{words.size}, from {wrong[0]}: {'; '.join(shown)}")
        if planned:
            self.kinds["special, planned"] += 1
            self.digests[where] = zlib.crc32(words.tobytes())

    def active(self, tensors: Iterable[str]) -> list[bool]:
        """Of each tensor: whether it is planned from now on, and with the results of planned
        ones."""
        if not self._is_strict:
            return [False for _ in tensors]
        names = _active(lambda plan: plan.iterations > 0)
        return [tensor in names for tensor in tensors]


def all_active(tensors: Collection[str]) -> bool:
    """Whether the next step of them is planned, if all ranks are between two."""
    return _active().issuperset(tensors)


def _active(which: Callable[[horovod_opt.PlanStatus], bool] = lambda plan: True) -> set[str]:
    """Tensors of such plans. Those of a graph or optimizer whose plan warms up may be known as
    calls that recur, too, and are none."""
    plans = horovod_opt.plans()
    waiting = {name for plan in plans if not plan.is_call and plan.state != "active"
               for name in _tensors(plan)}
    return {name for plan in plans if plan.state == "active" and which(plan)
            for name in _tensors(plan)} - waiting


def _tensors(plan: horovod_opt.PlanStatus) -> set[str]:
    """Without their memory order."""
    return {name.partition(" (order")[0] for bucket in plan.buckets for name in bucket}
