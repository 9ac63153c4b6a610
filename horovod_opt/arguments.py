"""What the commands have in common: types of their arguments, a refusal, and an exit status."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection

INTERRUPTED = 130  # what a shell reports for SIGINT


class Refusal(ValueError):
    """What the user has to change; the text says it."""


def above_zero(unit: str) -> Callable[[str], float]:
    """Numbers of `unit`, as in 'seconds', above 0."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {unit} above 0")
        return value

    return number


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def not_negative(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def some_of(possible: Collection[str]) -> Callable[[str], list[str]]:
    """Some of these names, separated by commas."""

    def names(text: str) -> list[str]:
        choices = list(dict.fromkeys(text.split(",")))
        for name in choices:
            if name not in possible:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(possible)}")
        return choices

    return names
