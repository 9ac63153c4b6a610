"""Finds the ranks of a job on this node, however they were started.

MPI's launchers give their processes sessions of their own, and a batch system's daemons start them:
being a descendant says nothing. Every process of the job inherits a mark in its environment.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from horovod_lab.profile.proc import Proc

MARK = "HOROVOD_PROFILE_JOB"
# Set by Horovod's launcher with Gloo, Open MPI, PMIx, MPICH, Slurm; the innermost first.
RANK = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
LOCAL_RANK = ("HOROVOD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
              "SLURM_LOCALID")
SIZE = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_HOROVOD = re.compile(rb"/horovod/\w+/mpi_lib[^/\n]*\.so")


@dataclass
class RankProcess:
    """A process that has loaded Horovod, with the processes below it. `rank` is None if nothing
    in its environment says which it is."""

    pid: int
    environ: Mapping[str, str]
    children: list[int] = field(default_factory=list)

    @property
    def rank(self) -> int | None:
        return number(self.environ, RANK)

    @property
    def local_rank(self) -> int | None:
        return number(self.environ, LOCAL_RANK)

    @property
    def size(self) -> int | None:
        return number(self.environ, SIZE)


def number(environ: Mapping[str, str], names: Sequence[str]) -> int | None:
    """Of the first of the variables that is a number."""
    return next((int(environ[name]) for name in names if environ.get(name, "").isdigit()), None)


class Finder:
    """Knows the ranks after each `scan`."""

    def __init__(self, proc: Proc, mark: str):
        self.ranks: dict[int, RankProcess] = {}  # by pid; those that have ended stay
        self._proc = proc
        self._mark = mark
        self._marked: dict[int, dict[str, str]] = {}
        self._unmarked: dict[int, int] = {}  # how often it was looked at

    def scan(self) -> None:
        present = self._proc.processes()
        self._marked = {pid: self._marked[pid] for pid in present if pid in self._marked}
        self._unmarked = {pid: self._unmarked[pid] for pid in present if pid in self._unmarked}
        for pid in present:
            # A process has its parent's environment until it starts its program.
            if pid not in self.ranks and self._unmarked.get(pid, 0) < 2:
                self._look_at(pid)
        parents = {pid: stat.parent for pid in self._marked
                   if (stat := self._proc.stat(pid, pid)) is not None}
        for rank in self.ranks.values():
            rank.children = []
        for pid in sorted(parents):
            above = self._rank_above(pid, parents)
            if above is not None:
                above.children.append(pid)
            elif pid not in self.ranks and _HOROVOD.search(self._proc.maps(pid)):
                self.ranks[pid] = RankProcess(pid, self._marked[pid])

    def _look_at(self, pid: int) -> None:
        environ = self._proc.environ(pid)
        if environ.get(MARK) == self._mark:
            self._marked[pid] = environ
        else:
            self._unmarked[pid] = self._unmarked.get(pid, 0) + 1

    def _rank_above(self, pid: int, parents: Mapping[int, int]) -> RankProcess | None:
        while (pid := parents.get(pid, 0)) in parents:
            if pid in self.ranks:
                return self.ranks[pid]
        return None


def marked(proc: Proc, mark: str) -> list[int]:
    """All processes of the job."""
    return [pid for pid in proc.processes() if proc.environ(pid).get(MARK) == mark]


def kill_marked(proc: Proc, mark: str) -> int:
    """Ends whatever is left of the job; returns how many processes that were."""
    killed: set[int] = set()
    while processes := set(marked(proc, mark)) - killed:
        for pid in processes:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        killed |= processes
    return len(killed)
