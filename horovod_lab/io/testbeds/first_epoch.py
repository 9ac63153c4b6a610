"""A job that reads cold data: its first epoch, of which the first seconds are measured at the speed
of the stand. The rest is read as fast as it goes, to see whether the epoch is complete, and how it
is shuffled."""

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
        program = [python, "-m", "horovod_lab.io.testbeds.first_epoch_rank", "--peer", peer.name,
                "--data", str(testbed.folder), "--rendezvous", folder,
                "--records", str(records.count), "--record-bytes", str(records.size),
                "--batch", str(batch), "--ranks", str(ranks), "--parent", str(os.getpid()),
                "--nodes", str(testbed.nodes), "--memory", str(testbed.memory)]
        result: dict[str, Any] = {}
        steps = _conduct(testbed, Rendezvous(Path(folder), None), ranks, seconds, records, result)
        try:
            launch.execute(
                [testbed.command(rank * testbed.nodes // ranks, [*program, "--rank", str(rank)])
                 for rank in range(ranks)], environ(os.environ), timeout, ELSEWHERE, steps)
        except launch.JobFailed as failure:
            killed = testbed.killed_for_memory()
            if not killed:
                raise
            raise launch.JobFailed(
                f"{killed} processes were killed: their node may hold {testbed.memory} bytes more "
                f"than at the begin, and they wanted more: {failure}") from None
        return result


def _conduct(testbed: Testbed, rendezvous: Rendezvous, ranks: int, seconds: float,
             records: Records, result: dict[str, Any]) -> Iterator[None]:
    """Tells the ranks when to begin and stop, and what they found to `result`, by the way."""
    while not rendezvous.has_all("ready", ranks):
        yield
    pids = [one["pid"] for one in rendezvous.wait_for_all("ready", ranks)]
    testbed.begin()
    before = cpu_seconds(pids)
    start = time.monotonic() + LEAD_SECONDS
    rendezvous.publish("go", {"start": start, "end": start + seconds})
    while time.monotonic() < start + seconds and not rendezvous.has_all("counted", ranks):
        yield
    counters = testbed.counters()
    cpu, used = cpu_seconds(pids) - before, memory(pids)
    while not rendezvous.has_all("counted", ranks):
        yield
    testbed.release()
    while not rendezvous.has_all("done", ranks):
        yield
    rendezvous.publish("stop", None)
    counted, done = (rendezvous.wait_for_all(name, ranks) for name in ("counted", "done"))
    samples = sum(one["samples"] for one in counted)
    if not samples:
        raise launch.JobFailed("no rank got a batch; remedy: more --records, or fewer --ranks")
    result |= {
        "samples": samples, "samples_per_second": rate(counted),
        "by_rank": [one["samples"] for one in counted],
        "is_over": all(one["is_over"] for one in counted),
        "cpu_seconds_per_million": cpu / samples * 1e6, "processes": used["processes"],
        "pss_bytes": used["Pss"], "pss_file_bytes": used["Pss_File"],
        **{name: value for name, value in asdict(counters).items() if value is not None},
        "read_factor": counters.bytes / (samples * records.size),
        **shuffle([np.array(one["numbers"]) for one in done], [one["sizes"] for one in done],
                  records.count)}


def rate(counted: Sequence[dict[str, Any]]) -> float:
    """Samples a second of all ranks: each rank's by its own seconds, but where a rank's epoch is
    over, by those of the last: a job waits for all of its ranks."""
    longest = max(one["seconds"] for one in counted)
    return sum(one["samples"] / (longest if one["is_over"] else one["seconds"])
               for one in counted)
