"""What the measurements amount to: the time of an allreduce by series and size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from horovod_lab.bench.worker_job import limit_and_base_first
from horovod_lab.measuring.comparison import Spread, by_round


@dataclass(frozen=True)
class Curve:
    """Of a series at a number of ranks: microseconds by the bytes of an allreduce; `failed` jobs
    have none."""

    ranks: int
    series: str
    microseconds: Mapping[int, Spread]
    failed: int


def curves(measurements: Sequence[dict[str, Any]]) -> Iterator[Curve]:
    """By ranks; in each the limit and off first, the others as they were first measured."""
    for ranks in dict.fromkeys(one["ranks"] for one in measurements):
        mine = [one for one in measurements if one["ranks"] == ranks]
        names = dict.fromkeys(one["series"] for one in mine)
        for name in sorted(names, key=limit_and_base_first):
            jobs = by_round(mine, name, lambda one: one["microseconds"]).values()
            sizes = sorted({int(size) for job in jobs for size in job})
            yield Curve(
                ranks, name,
                {size: Spread.of([job[str(size)] for job in jobs if str(size) in job])
                 for size in sizes},
                sum("failed" in one for one in mine if one["series"] == name))
