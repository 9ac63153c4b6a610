"""What one rank cannot do, none does: all raise the same error, and nobody is left waiting."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from horovod_opt.io.errors import DataError, InputError, tell
from horovod_opt.io.job.attendance import name_ranks
from horovod_opt.io.job.communication import Communication
from horovod_opt.io.job.patience import Wait

LOOK_SECONDS = 0.2  # how often ranks ask each other whether one still works

_AT_WORK, _ENDED, _FAILED = b"0", b"1", b"2"

Result = TypeVar("Result")


class Abandoned(DataError):
    """An action was ended in the middle: it has failed on another rank."""


def run_together(ranks: Communication, action: Callable[[], Result],
                 is_over: threading.Event | None = None) -> Result:
    """What `action` returns on this rank, once it has ended well on all; every rank calls it.

    It may take as long as it likes: the others ask now and then, so that no collective waits for
    minutes. `is_over` is set when it has failed on another rank: it may raise Abandoned then.
    Raises on every rank what any raised, with the ranks: InputError if all errors are.
    """
    if ranks.size == 1:
        return action()
    own, wait = _Action(action), Wait()
    while True:
        states = ranks.allgather(own.state(LOOK_SECONDS))
        _look(wait, ranks, states)
        if is_over is not None and _FAILED in states:
            is_over.set()
        if _AT_WORK not in states:
            return own.result(_errors(ranks, own.error))


def _look(wait: Wait, ranks: Communication, states: list[bytes]) -> None:
    """The first rank that is done says which are not, if that takes long."""
    busy = [rank for rank, state in enumerate(states) if state == _AT_WORK]
    if busy and next((rank for rank in range(ranks.size) if rank not in busy), -1) == ranks.rank:
        wait.look(lambda seconds: (
            f"rank {ranks.rank} of {ranks.size} has waited for {seconds:.0f} s for "
            f"{name_ranks(busy, ranks.size)}, still at work, as it {ranks.what or 'meets them'}: "
            "all go on together; remedy, if that does not end: see what is said above, and "
            "whether storage or a function given to open() hangs there"))


def require_equal(ranks: Communication, values: Mapping[str, Any], remedy: str) -> None:
    """Raises InputError on all ranks if one of `values`, which JSON can hold, differs."""
    rows = [json.loads(row) for row in ranks.allgather(
        json.dumps(dict(values), default=_as_json).encode())]
    for name in values:
        _require_equal(name, {rank: row.get(name) for rank, row in enumerate(rows)}, remedy)


def _as_json(value: Any) -> Any:
    """A number of NumPy's as Python's, what is none as it is shown: a check of its own refuses
    it."""
    return value.item() if isinstance(value, np.generic) else tell(value)


def require_agreement(ranks: Communication, name: str, value: Any, remedy: str) -> None:
    """The same for one value, which ranks that have None do not know."""
    rows = enumerate(map(json.loads, ranks.allgather(json.dumps(value).encode())))
    _require_equal(name, {rank: row for rank, row in rows if row is not None}, remedy)


def _require_equal(name: str, values: Mapping[int, Any], remedy: str) -> None:
    by_value: dict[str, list[int]] = {}
    for rank, value in values.items():
        by_value.setdefault(json.dumps(value), []).append(rank)
    if len(by_value) > 1:
        groups = "; ".join(f"{value} on {_ranks(holders)}" for value, holders in by_value.items())
        raise InputError(f"{name} differs between the ranks: {groups}; remedy: {remedy}")


class _Action:
    """An action in a thread of its own."""

    def __init__(self, action: Callable[[], Any]):
        self.error: BaseException | None = None
        self._value: Any = None
        self._over = threading.Event()
        threading.Thread(target=self._run, args=(action,), daemon=True).start()

    def _run(self, action: Callable[[], Any]) -> None:
        try:
            self._value = action()
        except BaseException as error:
            self.error = error
        self._over.set()

    def state(self, seconds: float) -> bytes:
        """After so many, or earlier if it has ended."""
        if not self._over.wait(seconds):
            return _AT_WORK
        return _ENDED if self.error is None else _FAILED

    def result(self, error: DataError | None) -> Any:
        if error is not None:
            raise error from self.error
        return self._value


def _errors(ranks: Communication, error: BaseException | None) -> DataError | None:
    """Of all ranks in one."""
    text = "" if error is None or isinstance(error, Abandoned) else json.dumps(
        [isinstance(error, InputError),
         str(error) if isinstance(error, DataError) else f"{type(error).__name__}: {error}"])
    by_text: dict[str, list[int]] = {}
    for rank, error_text in enumerate(ranks.allgather(text.encode())):
        if error_text:
            by_text.setdefault(error_text.decode(), []).append(rank)
    if not by_text:
        return None
    kind = InputError if all(json.loads(error_text)[0] for error_text in by_text) else DataError
    if list(map(len, by_text.values())) == [ranks.size]:
        return kind(json.loads(next(iter(by_text)))[1])
    return kind("; ".join(f"{_ranks(failing)}: {json.loads(error_text)[1]}"
                          for error_text, failing in by_text.items()))


def _ranks(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
    return f"ranks {', '.join(map(str, numbers[:8]))}{more}"
