"""The jobs of the suite training: each source of records at each number of ranks, interleaved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from horovod_lab.measuring.comparison import in_rounds


@dataclass(frozen=True)
class Source:
    """One of input_sources.py; `reference`: what of it is the least that an input can cost, which
    makes the same of the same bytes."""

    name: str
    label: str
    reference: str | None = None


SOURCES = {source.name: source for source in (
    Source("memory", "JPEGs in memory"),
    Source("hio", "JPEGs, hio", "memory"),
    Source("tf-data", "JPEGs, tf.data", "memory"),
    Source("synthetic", "one batch again and again"),
    Source("hio-raw", "raw records, hio", "synthetic"),
    Source("tf-data-raw", "raw records, tf.data", "synthetic"),
)}


@dataclass(frozen=True)
class Job:
    round: int
    ranks: int
    source: Source

    def key(self) -> dict[str, Any]:
        return {"round": self.round, "ranks": self.ranks, "series": self.source.name}

    def __str__(self) -> str:
        return f"round {self.round + 1}  {self.ranks} ranks  {self.source.label}"


def order(names: Sequence[str], ranks: Sequence[int], rounds: int) -> list[Job]:
    sources = [SOURCES[name] for name in names]
    return [Job(*job) for job in in_rounds(list(ranks), lambda _: sources, rounds)]
