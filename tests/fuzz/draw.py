"""Choices from a fuzzer's bytes: every text of bytes is some input, and near ones are alike."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

# What readers stumble over: signs, ports, separators of lines and fields, digits that are none.
TEXTS = ("", "a", "b", "c", "a:0", "b:1", "^a", ":", "a:b", "a:\u00b2", "-1", "\t", "\n", "\r",
         "\u2028", "\0", "\ud800", "graph", "float32", "1" * 20)
NUMBERS = (0, 1, 2, 3, 4, 7, -1, 64, 1000, 2**31, 2**63, 10**30, 10**400)
ODD = (None, True, False, 0.5, float("inf"), float("nan"), [], {}, [[]], {"a": 1})


class Draw:
    """`data` from its beginning; zeros after its end."""

    def __init__(self, data: bytes):
        self._data, self._position = data, 0

    def byte(self) -> int:
        self._position += 1
        return self._data[self._position - 1] if self._position <= len(self._data) else 0

    def below(self, bound: int) -> int:
        return self.byte() % bound

    def one_in(self, times: int) -> bool:
        """Never after the end of the data."""
        return self.byte() % times == times - 1

    def choice(self, options: Sequence) -> Any:
        return options[self.below(len(options))]

    def text(self) -> str:
        return self.choice(TEXTS)

    def number(self) -> int:
        return self.choice(NUMBERS)

    def anything(self) -> Any:
        """Of any type that JSON has."""
        return self.choice((self.text, self.number, lambda: deepcopy(self.choice(ODD))))()

    def or_anything(self, value: Any) -> Any:
        """`value`, and now and then something else."""
        return self.anything() if self.one_in(32) else value
