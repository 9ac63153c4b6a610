"""What the commands have in common: types of their arguments, a refusal, and an exit status."""

from __future__ import annotations

import argparse

INTERRUPTED = 130  # what a shell reports for SIGINT


class Refused(ValueError):
    """What the user has to change; the text says it."""


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
