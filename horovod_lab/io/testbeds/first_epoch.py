"""A job that reads cold data: its first epoch, of which the first seconds are measured at the speed
of the testbed. The rest is read as fast as it goes, to see whether the epoch is complete, and how
it is shuffled."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from horovod_lab.io.data.records import Records
from horovod_lab.io.environment import ELSEWHERE
from horovod_lab.io.peers import Peer
from horovod_lab.io.testbeds.observer import LEAD_SECONDS, shuffle
from horovod_lab.io.testbeds.processes import cpu_seconds, memory
from horovod_lab.io.testbeds.rendezvous import Rendezvous
from horovod_lab.io.testbeds.steady_state import environ
from horovod_lab.io.testbeds.testbed import Testbed
from horovod_lab.measuring import launch


def run(testbed: Testbed, peer: Peer, ranks: int, records: Records, batch: int, seconds: float,
        python: str, timeout: float) -> dict[str, Any]:
    """What `ranks` processes did in the first seconds of an epoch, as many on each node.

    Raises:
        launch.JobFailed: a rank failed or took too long; nothing of the job is left running.
    """
    with tempfile.TemporaryDirectory(prefix="horovod-io-bench-") as folder:
        program = rank_program("first_epoch_rank", testbed, peer, ranks, records, batch, folder,
                               python)
        result: dict[str, Any] = {}
        steps = _conduct(testbed, Rendezvous(Path(folder), None), ranks, seconds, records, result)
        try:
            launch.execute(
                [testbed.command(rank * testbed.nodes // ranks, [*program, "--rank", str(rank)])
                 for rank in range(ranks)], environ(os.environ), timeout, ELSEWHERE, steps)
        except launch.JobFailed as failure:
            kills = testbed.count_memory_kills()
            if not kills:
                raise
            raise launch.JobFailed(
                f"{kills} processes were killed: their node may hold {testbed.memory} bytes more "
                f"than at the begin, and they wanted more: {failure}") from None
        return result


def rank_program(module: str, testbed: Testbed, peer: Peer, ranks: int, records: Records,
                 batch: int, rendezvous: str, python: str) -> list[str]:
    """What first_epoch_rank.parse() takes, but for the number of the rank."""
    return [python, "-m", f"horovod_lab.io.testbeds.{module}", "--peer", peer.name,
            "--data", str(testbed.folder), "--rendezvous", rendezvous,
            "--records", str(records.count), "--record-bytes", str(records.size),
            "--batch", str(batch), "--ranks", str(ranks), "--parent", str(os.getpid()),
            "--nodes", str(testbed.nodes), "--memory", str(testbed.memory)]


def _conduct(testbed: Testbed, rendezvous: Rendezvous, ranks: int, seconds: float,
             records: Records, result: dict[str, Any]) -> Iterator[None]:
    """Tells the ranks when to begin and stop, and what they found to `result`, by the way."""
    while not rendezvous.has_all("ready", ranks):
        yield
    pids = [rank["pid"] for rank in rendezvous.wait_for_all("ready", ranks)]
    testbed.begin()
    before = cpu_seconds(pids)
    start = time.monotonic() + LEAD_SECONDS
    rendezvous.publish("go", {"start": start, "end": start + seconds})
    while time.monotonic() < start + seconds and not rendezvous.has_all("counted", ranks):
        yield
    counters = testbed.counters()
    cpu, usage = cpu_seconds(pids) - before, memory(pids)
    while not rendezvous.has_all("counted", ranks):
        yield
    testbed.release()
    while not rendezvous.has_all("done", ranks):
        yield
    rendezvous.publish("stop", None)
    counts, done = (rendezvous.wait_for_all(name, ranks) for name in ("counted", "done"))
    samples = sum(rank["samples"] for rank in counts)
    if not samples:
        raise launch.JobFailed("no rank got a batch; remedy: more --records, or fewer --ranks")
    result |= {
        "samples": samples, "samples_per_second": rate(counts),
        "by_rank": [rank["samples"] for rank in counts],
        "is_over": all(rank["is_over"] for rank in counts),
        "cpu_seconds_per_million": cpu / samples * 1e6, "processes": usage["processes"],
        "pss_bytes": usage["Pss"], "pss_file_bytes": usage["Pss_File"],
        **{name: value for name, value in asdict(counters).items() if value is not None},
        "read_factor": counters.bytes / (samples * records.size),
        **shuffle([np.array(rank["numbers"]) for rank in done], [rank["sizes"] for rank in done],
                  records.count)}


def rate(counts: Sequence[dict[str, Any]]) -> float:
    """Samples a second of all ranks: each rank's by its own seconds, but where a rank's epoch is
    over, by those of the last: a job waits for all of its ranks."""
    longest = max(rank["seconds"] for rank in counts)
    return sum(rank["samples"] / (longest if rank["is_over"] else rank["seconds"])
               for rank in counts)
