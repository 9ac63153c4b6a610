"""Which records a rank takes in which iteration, as Caffe deals them out (dissertation, 3.1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

MEMORY, MPI = SHARED_BUFFERS = ("memory", "mpi")


@dataclass(frozen=True)
class Place:
    """A rank, and what the job reads. All ranks together take a run of records in each iteration,
    each rank `batch` of them; ranks of a node have numbers that follow each other.

    `folder`: of the database. `node_ranks`: ranks of a node. `record_bytes`: of the largest record.
    `memory`: bytes that a node may hold, None without a limit. `shared_buffer`: what the ranks
    of a node share memory by, one of SHARED_BUFFERS. `iterations_per_read`: that are coalesced.
    `tokens`: readers that may read at the same time.
    """

    folder: str
    rank: int
    ranks: int
    node_ranks: int
    batch: int
    iterations: int
    record_bytes: int
    memory: Optional[int] = None
    shared_buffer: str = MEMORY
    iterations_per_read: int = 1
    tokens: int = 1

    @property
    def path(self) -> str:
        return f"{self.folder}/data.mdb"

    @property
    def nodes(self) -> int:
        return self.ranks // self.node_ranks

    @property
    def node(self) -> int:
        return self.rank // self.node_ranks

    @property
    def local_rank(self) -> int:
        return self.rank % self.node_ranks

    @property
    def is_reader(self) -> bool:
        """Whether this rank reads for its node."""
        return self.local_rank == 0

    @property
    def reader(self) -> int:
        """The rank that reads for this node."""
        return self.node * self.node_ranks

    @property
    def readers(self) -> list[int]:
        """The rank that reads, of each node."""
        return list(range(0, self.ranks, self.node_ranks))

    @property
    def local_ranks(self) -> list[int]:
        """Those of this node."""
        return list(range(self.reader, self.reader + self.node_ranks))

    @property
    def global_batch(self) -> int:
        return self.ranks * self.batch

    @property
    def node_batch(self) -> int:
        return self.node_ranks * self.batch

    def first(self, iteration: int, rank: int) -> int:
        """The number of a rank's first record, if the records never ended."""
        return iteration * self.global_batch + rank * self.batch
