"""The result of the analysis: which collectives run in which order, fused into which buckets."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from graph_analysis.reductions import DTYPES

MOST_RUNS = 4  # runs of IDs up to which a list of them is shown whole

class Slot(NamedTuple):
    """A tensor in a bucket. `after`: IDs of the planned collectives on which it depends without
    another one in between. `key`: what finds the slot at run time, 0 if nothing does."""

    id: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    reduce_op: int
    prescale: float
    postscale: float
    device: str
    key: int
    nbytes: int
    after: tuple[int, ...]


class Bucket(NamedTuple):
    """Tensors that are reduced as one. `closed`: why it does not hold more, in words."""

    slots: tuple[Slot, ...]
    closed: str

    @property
    def nbytes(self) -> int:
        return sum(slot.nbytes for slot in self.slots)


class Negotiated(NamedTuple):
    """A collective that has an ID, as all have, but no place in a bucket. `reason`: why it stays
    negotiated, in words."""

    id: int
    name: str
    reason: str


def nbytes(shape: tuple[int, ...], dtype: str) -> int:
    return math.prod(shape) * DTYPES[dtype].bytes


def size(number: int) -> str:
    """Bytes for a reader: 512 B, 1.5 KiB, 2 MiB."""
    for unit, divisor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= divisor:
            return f"{round(number / divisor, 1):g} {unit}"
    return f"{number} B"


@dataclass(frozen=True)
class Plan:
    """The buckets of a region in the order in which they are reduced.

    `unplanned` are the collectives that stay negotiated. `process_set`: the number of that whose
    ranks reduce them. Equal hashes mean equal collectives in equal order and buckets, whatever the
    graph or its keys are called."""

    name: str
    buckets: tuple[Bucket, ...]
    unplanned: tuple[Negotiated, ...] = ()
    process_set: int = 0

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(slot for bucket in self.buckets for slot in bucket.slots)

    @property
    def nbytes(self) -> int:
        return sum(bucket.nbytes for bucket in self.buckets)

    @cached_property
    def hash(self) -> str:
        """16 hexadecimal digits over everything that the ranks must agree on: names, shapes,
        dtypes, attributes, order and buckets."""
        # Not the IDs: ranks may differ in what they negotiate in between.
        content: list = [[slot[1:8] for slot in bucket.slots] for bucket in self.buckets]
        if self.process_set:
            content.append(self.process_set)
        text = json.dumps(content, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> str:
        from graph_analysis.plan_format import write
        return write(self)

    @staticmethod
    def from_json(text: str) -> Plan:
        """Raises PlanError if `text` is not what to_json() writes."""
        from graph_analysis.plan_format import read
        return read(text)

    def explain(self) -> str:
        from graph_analysis.plan_views import explain
        return explain(self)


class Kind(NamedTuple):
    """Those with the same reason, in words for a reader: "3-5, 7" and "4 tensors, such as x"."""

    ids: str
    tensors: str
    reason: str


def kinds(negotiated: Iterable[Negotiated]) -> list[Kind]:
    """Sorted by reason."""
    by_reason = sorted(negotiated, key=lambda tensor: (tensor.reason, tensor.id))
    return [_kind(reason, list(tensors))
            for reason, tensors in groupby(by_reason, key=lambda tensor: tensor.reason)]


def _kind(reason: str, tensors: Sequence[Negotiated]) -> Kind:
    name = tensors[0].name
    words = name if len(tensors) == 1 else f"{len(tensors)} tensors, such as {name}"
    return Kind(_ranges([tensor.id for tensor in tensors]), words, reason)


def _ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers as runs: 0-2, 5. Of many runs the first and the last."""
    runs = [[number for _, number in run]
            for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    if len(texts) > MOST_RUNS:
        texts[MOST_RUNS - 1:-1] = ["..."]
    return ", ".join(texts)
