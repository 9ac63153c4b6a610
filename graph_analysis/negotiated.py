"""Collectives that have an ID, as all have, but no place in a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

SHOWN = 4  # runs of IDs up to which a list of them is shown whole


class Negotiated(NamedTuple):
    """`reason`: why it stays negotiated, in words."""

    id: int
    name: str
    reason: str


class Kind(NamedTuple):
    """Those with the same reason, in words for a reader: "3-5, 7" and "4 tensors, such as x"."""

    ids: str
    tensors: str
    reason: str


def kinds(negotiated: Iterable[Negotiated]) -> list[Kind]:
    """Sorted by reason."""
    by_reason = sorted(negotiated, key=lambda one: (one.reason, one.id))
    return [_kind(reason, list(ones))
            for reason, ones in groupby(by_reason, key=lambda one: one.reason)]


def _kind(reason: str, ones: Sequence[Negotiated]) -> Kind:
    name = ones[0].name
    tensors = name if len(ones) == 1 else f"{len(ones)} tensors, such as {name}"
    return Kind(_ranges([one.id for one in ones]), tensors, reason)


def _ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers as runs: 0-2, 5. Of many runs the first and the last."""
    runs = [[number for _, number in run]
            for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    if len(texts) > SHOWN:
        texts[SHOWN - 1:-1] = ["..."]
    return ", ".join(texts)
