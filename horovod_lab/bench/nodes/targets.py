"""What mode topo is meant to reach between nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from horovod_lab.bench.nodes.rows import (
    OFF_GLOO,
    OTHERS,
    PAIR,
    PAIR_SLOW,
    TOPO,
    TOPO_BF16,
    TOPO_GLOO,
    Layout,
)
from horovod_lab.bench.worker_job import LIMIT
from horovod_lab.measuring.verdict import Bound

BEST, VALUE, IDEAL = "best", "value", "ideal"


@dataclass(frozen=True)
class Target(Bound):
    """`of` says what of `series` is bounded: its speed as a multiple of the fastest of `over`
    (BEST), its value (VALUE), or the time of a step as a multiple of what it needs at least, which
    is the longer of computing without communication and sending its bytes (IDEAL). Exactly one of
    `least` and `most` is given, in `unit`."""

    workload: str
    layout: Layout
    of: str
    unit: str
    series: str = TOPO
    over: Sequence[str] = ()
    least: float | None = None
    most: float | None = None

    @property
    def needs(self) -> Sequence[str]:
        """The series that have to be measured."""
        return (self.series, *self.over)


TARGETS = (
    Target("resnet50", PAIR, BEST, "x best", over=OTHERS, least=1.10),
    Target("resnet50", PAIR, BEST, "x alone", over=(LIMIT,), least=0.88),
    Target("resnet50", PAIR, BEST, "x off, Gloo", TOPO_GLOO, (OFF_GLOO,), least=1.15),
    Target("large", PAIR, VALUE, "us", most=16_000),
    Target("small", PAIR, VALUE, "us", most=150),
    Target("idle", PAIR, VALUE, "% of a core", most=0.3),
    Target("idle", PAIR, VALUE, "% of a core", TOPO_GLOO, most=0.3),
    Target("resnet50", Layout(4, 1), BEST, "x best", over=OTHERS, least=1.05),
    Target("resnet50", Layout(2, 2), BEST, "x best", over=OTHERS, least=1.05),
    Target("resnet50", Layout(4, 2), BEST, "x best", over=OTHERS, least=1.08),
    Target("resnet50", PAIR_SLOW, IDEAL, "x ideal", over=(LIMIT,), most=1.10),
    Target("resnet50", PAIR_SLOW, BEST, "x float32", TOPO_BF16, (TOPO,), least=1.6),
)
