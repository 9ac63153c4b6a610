"""What the commands have in common: types of their arguments, a refusal, and an exit status."""

from __future__ import annotations

import argparse
import math

INTERRUPTED = 130  # what a shell reports for SIGINT


class Refused(ValueError):
    """What the user has to change; the text says it."""


def seconds(text: str) -> float:
    """A time above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
