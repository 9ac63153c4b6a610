"""What every pipeline is to the benchmark: batches of one rank, epoch after epoch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from horovod_lab.io.testbeds.nodes import INTERFACE


@dataclass(frozen=True)
class Place:
    """Which part of which data a rank takes. `workers`: processes of this rank that read for it; 0:
    it reads itself, with or without threads. `rendezvous`: a folder of all ranks of this job.
    `nodes`: each has as many ranks, the first node the first ones. `memory`: bytes that a node may
    hold beside what its ranks hold when they begin to read; None: as many as there are. `epochs`:
    how many will be taken; None: one after the other."""

    folder: Path
    records: int
    batch: int
    workers: int
    rank: int
    ranks: int
    rendezvous: Path
    nodes: int = 1
    memory: Optional[int] = None
    epochs: Optional[int] = None

    @property
    def local_ranks(self) -> int:
        """Of each node."""
        return self.ranks // self.nodes

    @property
    def local_rank(self) -> int:
        return self.rank % self.local_ranks


class Stream:
    """A pipeline, open on one rank."""

    def epoch(self, number: int) -> Iterator[list[bytes]]:
        """This rank's batches of an epoch, each a list of records."""
        raise NotImplementedError

    def close(self) -> None:
        """Other ranks may go on for a moment."""


def join_process_group(place: Place) -> None:
    """That of torch.distributed, for the pipelines that ask it for their ranks; over a file, so
    that no port has to be free."""
    if place.ranks == 1:
        return
    from torch import distributed

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if place.nodes == 1 else INTERFACE)
    distributed.init_process_group("gloo", init_method=f"file://{place.rendezvous / 'torch'}",
                                   rank=place.rank, world_size=place.ranks)
