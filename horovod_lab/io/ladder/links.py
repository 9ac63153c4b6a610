"""Messages between the ranks of a job, over Unix sockets in a folder of their own.

LMDBIO sends them with MPI. Here a rank that waits sleeps in read(), where MPI would spin on a core
that another rank needs.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict, deque
from collections.abc import Mapping
from multiprocessing.connection import Client, Connection, Listener
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path

from horovod_lab.io.testbeds.rendezvous import Rendezvous


class LinkLost(Exception):
    """Another rank has ended."""


class Links:
    """Collective: every rank of the job makes one, in the same folder. A message has a tag of one
    byte; those of one tag arrive in the order they were sent in."""

    def __init__(self, folder: Path, rank: int, ranks: int, parent: int):
        self.rank, self.ranks = rank, ranks
        self._to: dict[int, Connection] = {}
        self._stash: dict[tuple[int, bytes], deque[bytes]] = defaultdict(deque)
        rendezvous = Rendezvous(folder, parent)
        with Listener(str(folder / f"rank-{rank}"), "AF_UNIX", backlog=ranks) as listener:
            rendezvous.publish(f"listening.{rank}", os.getpid())
            self._pids = rendezvous.wait_for_all("listening", ranks)
            for peer in range(rank):
                self._to[peer] = Client(str(folder / f"rank-{peer}"), "AF_UNIX")
                self._to[peer].send_bytes(rank.to_bytes(4, "little"))
            while len(self._to) < ranks - 1:
                connection = listener.accept()
                self._to[int.from_bytes(connection.recv_bytes(), "little")] = connection

    def send(self, rank: int, tag: bytes, data: bytes = b"") -> None:
        """Raises LinkLost. Data that fills the socket waits until the other rank receives."""
        try:
            self._to[rank].send_bytes(tag + data)
        except OSError as error:
            raise self._lost_link(rank) from error

    def receive(self, rank: int, tag: bytes) -> bytes:
        """The next of this tag; waits for it, asleep. Raises LinkLost."""
        stash = self._stash[rank, tag]
        while not stash:
            try:
                message = self._to[rank].recv_bytes()
            except (EOFError, OSError) as error:
                raise self._lost_link(rank) from error
            self._stash[rank, message[:1]].append(message[1:])
        return stash.popleft()

    def allgather(self, data: bytes, tag: bytes = b"g") -> list[bytes]:
        """Collective: the data of all ranks, by rank; over rank 0."""
        if self.rank:
            self.send(0, tag, data)
            return _unpack(self.receive(0, tag))
        parts = [data, *(self.receive(peer, tag) for peer in range(1, self.ranks))]
        for peer in range(1, self.ranks):
            self.send(peer, tag, _pack(parts))
        return parts

    def barrier(self) -> None:
        """Collective: returns when all ranks are here, as after an allreduce."""
        self.allgather(b"", b"b")

    def alltoall(self, parts: Mapping[int, bytes]) -> dict[int, bytes]:
        """Collective among the ranks of `parts`: each sends each its part, and gets one from it. A
        thread sends, so that no two wait for each other."""
        peers = [rank for rank in parts if rank != self.rank]
        if not peers:
            return dict(parts)
        sender = threading.Thread(
            target=lambda: [self.send(rank, b"x", parts[rank]) for rank in peers])
        sender.start()
        try:
            return {rank: parts[rank] if rank == self.rank else self.receive(rank, b"x")
                    for rank in parts}
        finally:
            sender.join()

    def send_file(self, rank: int, file: int) -> None:
        """A descriptor; not while other messages are on their way."""
        send_handle(self._to[rank], file, self._pids[rank])

    def receive_file(self, rank: int) -> int:
        return recv_handle(self._to[rank])

    def close(self) -> None:
        for connection in self._to.values():
            connection.close()

    def _lost_link(self, rank: int) -> LinkLost:
        return LinkLost(f"rank {self.rank}: rank {rank} has ended; its own message says why")


def _pack(parts: list[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def _unpack(data: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at:at + 8], "little")
        parts.append(data[at + 8:at + 8 + size])
        at += 8 + size
    return parts
