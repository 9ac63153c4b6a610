"""The jobs of the suite lmdb: each strategy at each number of ranks, interleaved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from horovod_lab.io.strategies import RUNGS, Rung
from horovod_lab.measuring.comparison import in_rounds


@dataclass(frozen=True)
class Job:
    round: int
    ranks: int
    rung: Rung

    def key(self) -> dict[str, Any]:
        return {"round": self.round, "ranks": self.ranks, "series": self.rung.name}

    def __str__(self) -> str:
        return f"round {self.round + 1}  {self.ranks} ranks  {self.rung.label}"


def order(names: Sequence[str], ranks: Sequence[int], rounds: int) -> list[Job]:
    rungs = [RUNGS[name] for name in names]
    return [Job(*job) for job in in_rounds(list(ranks), lambda _: rungs, rounds)]
