"""What mode topo is meant to reach, in each kind of step and at each number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from horovod_lab.bench.steps.kinds import KINDS, OTHERS
from horovod_lab.bench.worker_job import BASE, LIMIT
from horovod_lab.measuring.verdict import Bound

SPEED, VALUE, ROUNDS = "speed", "value", "rounds"


@dataclass(frozen=True)
class Target(Bound):
    """`of`: topo's speed as a multiple of that of the fastest of `over`, its value (as a multiple
    of that of `over`), or the rounds of negotiation in steady state. Exactly one of `least` and
    `most` is given, in `unit`. `steps`: of which kinds; `ranks`: at which number, None for any."""

    unit: str
    of: str
    over: Sequence[str] = ()
    least: float | None = None
    most: float | None = None
    steps: Sequence[str] = tuple(KINDS)
    ranks: int | None = None

    @property
    def form(self) -> str:
        """How its values are shown; "" for three digits."""
        return ".0f" if self.of == ROUNDS else ".2f" if self.over else ""

    def applies(self, step: str, ranks: int) -> bool:
        return step in self.steps and self.ranks in (None, ranks)


TARGETS = (
    Target("x best", SPEED, OTHERS, least=1.0),
    Target("x off", SPEED, (BASE,), least=1.3, steps=("text", "text_torch")),
    Target("x alone", SPEED, (LIMIT,), least=0.96, steps=("resnet50",), ranks=2),
    Target("x off's ms", VALUE, (BASE,), most=0.4, steps=("small",)),
    Target("us", VALUE, most=40.0, steps=("chain",)),
    Target("rounds", ROUNDS, most=0.0),
)
