"""The system calls that lead to a state, in words, and which of them the crash has lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from horovod_lab.io.crashes import operations as ops
from horovod_lab.io.crashes.operations import Operation
from horovod_lab.io.crashes.states import State


class Names:
    """Of files and folders by their numbers, as operations give them."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, bytes]] = {}
        self._inside: dict[tuple[int, bytes], int] = {}

    def path(self, folder: int, name: bytes) -> str:
        path = name.decode(errors="replace")
        return path if folder not in self._places else f"{self.of(folder)}/{path}"

    def of(self, number: int) -> str:
        return self.path(*self._places[number]) if number in self._places else "."

    def give(self, number: int, folder: int, name: bytes) -> None:
        self._places[number] = folder, name
        self._inside[folder, name] = number

    def move(self, folder: int, name: bytes, to: int, new: bytes) -> None:
        number = self._inside.pop((folder, name), None)
        if number is not None:
            self.give(number, to, new)


def describe(operation: Operation, names: Names) -> str:
    """As a call; "" for what is only part of one."""
    kind, *arguments = operation
    if kind in (ops.FOLDER, ops.LINK):
        names.give(*arguments)
        return f"{'mkdir' if kind == ops.FOLDER else 'create'} {names.of(arguments[0])}"
    if kind == ops.RENAME:
        text = f"rename {names.path(*arguments[:2])} to {names.path(*arguments[2:])}"
        names.move(*arguments)
        return text
    if kind in (ops.UNLINK, ops.RMDIR):
        return f"{kind} {names.path(*arguments)}"
    if kind == ops.WRITE:
        return f"write {names.of(arguments[0])}, {len(arguments[2])} bytes at {arguments[1]}"
    if kind == ops.TRUNCATE:
        return f"truncate {names.of(arguments[0])} to {arguments[1]} bytes"
    if kind == ops.SYNC:
        return f"fsync {names.of(arguments[0])}"
    return f"{arguments[0]} is saved" if kind == ops.MARKED else ""


def tell(recorded: Sequence[Operation], settled: str, state: State) -> list[str]:
    """From the mark `settled` on: each call, and behind it what of it is lost."""
    pending = Counter(unit.operation for unit in state.pending)
    lost = Counter(unit.operation for unit in state.lost)
    names, lines, has_begun = Names(), [], False
    for number, operation in enumerate(recorded[:state.operation + 1]):
        text = describe(operation, names)
        has_begun = has_begun or operation == (ops.MARKED, settled)
        if not has_begun or not text:
            continue
        if lost[number]:
            whole = lost[number] == pending[number]
            text += ": lost" if whole else f": {lost[number]} of {pending[number]} parts lost"
        lines.append(text)
    return [*lines, "crash"]
