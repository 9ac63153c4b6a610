"""The jobs of the suite records: each pipeline at each number of ranks, interleaved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from horovod_lab.io.peers import PEERS, Peer
from horovod_lab.measuring.comparison import in_rounds


@dataclass(frozen=True)
class Job:
    round: int
    ranks: int
    peer: Peer

    def key(self) -> dict[str, Any]:
        return {"round": self.round, "ranks": self.ranks, "series": self.peer.name}

    def __str__(self) -> str:
        return f"round {self.round + 1}  {self.ranks} ranks  {self.peer.label}"


def order(names: Sequence[str], ranks: Sequence[int], rounds: int) -> list[Job]:
    peers = [PEERS[name] for name in names]
    return [Job(number, count, peer) for number, count, peer
            in in_rounds(list(ranks), lambda _: peers, rounds)]
