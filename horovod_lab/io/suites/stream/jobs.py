"""The jobs of the suite stream: each pipeline once a round, with every number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from horovod_lab.measuring.comparison import interleave

LABELS = {"tf-data": "tf.data", "hio": "hio"}
WITHOUT, WITH = PREPROCESSING = ("without", "with")


@dataclass(frozen=True)
class Job:
    round: int
    series: str

    def key(self) -> dict[str, Any]:
        return {"round": self.round, "series": self.series}

    def __str__(self) -> str:
        return f"round {self.round + 1}  {LABELS[self.series]}"

    def turned(self, shapes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """What it measures, one after the other: each round begins with the next one."""
        first = self.round % len(shapes)
        return [*shapes[first:], *shapes[:first]]


def order(names: Sequence[str], rounds: int) -> list[Job]:
    return [Job(*job) for job in interleave(names, rounds)]
