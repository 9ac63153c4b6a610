"""A job that takes several epochs of cold data on a testbed: when its first batch came, how long
each epoch took, and what storage and processors did meanwhile."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from horovod_lab.io.data.records import Records
from horovod_lab.io.environment import ELSEWHERE
from horovod_lab.io.peers import Peer
from horovod_lab.io.testbeds.first_epoch import rank_program
from horovod_lab.io.testbeds.processes import cpu_seconds
from horovod_lab.io.testbeds.rendezvous import Rendezvous
from horovod_lab.io.testbeds.steady_state import environ
from horovod_lab.io.testbeds.testbed import Testbed
from horovod_lab.measuring import launch


def run(testbed: Testbed, peer: Peer, records: Records, batch: int, epochs: int, python: str,
        timeout: float) -> dict[str, Any]:
    """Of a rank on each node. `first_batch_seconds`: from when ranks begin to open the data, with
    their libraries loaded, until the last of them has a batch. Of each epoch of `epochs`: its
    `seconds`, on all ranks; `bytes`, `requests` and `inversions` of the storage; and
    `cpu_seconds` of the ranks. `is_complete`: each record came once in each epoch.

    Raises:
        launch.JobFailed: a rank failed or took too long; nothing of the job is left running.
    """
    with tempfile.TemporaryDirectory(prefix="horovod-io-bench-") as folder:
        program = [*rank_program("whole_epochs_rank", testbed, peer, testbed.nodes, records, batch,
                                 folder, python), "--epochs", str(epochs)]
        result: dict[str, Any] = {}
        launch.execute(
            [testbed.command(rank, [*program, "--rank", str(rank)])
             for rank in range(testbed.nodes)], environ(os.environ), timeout, ELSEWHERE,
            _conduct(testbed, Rendezvous(Path(folder), None), records, epochs, result))
        return result


def _conduct(testbed: Testbed, rendezvous: Rendezvous, records: Records, epochs: int,
             result: dict[str, Any]) -> Iterator[None]:
    """Has the ranks take one epoch after the other, and fills `result`."""
    ranks = testbed.nodes
    while not rendezvous.has_all("ready", ranks):
        yield
    pids = [rank["pid"] for rank in rendezvous.wait_for_all("ready", ranks)]
    testbed.begin()
    result |= {"epochs": [], "is_complete": True}
    for epoch in range(epochs):
        before, cpu = testbed.counters(), cpu_seconds(pids)
        start = time.monotonic()
        rendezvous.publish(f"go{epoch}", None)
        while not rendezvous.has_all(f"taken{epoch}", ranks):
            yield
        seconds = time.monotonic() - start
        taken = rendezvous.wait_for_all(f"taken{epoch}", ranks)
        counts = asdict(testbed.counters().since(before))
        result["epochs"].append({
            "seconds": seconds, "cpu_seconds": cpu_seconds(pids) - cpu,
            **{name: counts[name] for name in ("bytes", "requests", "inversions")}})
        numbers = Counter(number for rank in taken for number in rank["numbers"])
        result["is_complete"] &= numbers == Counter(range(records.count))
        if not epoch:
            result["first_batch_seconds"] = max(rank["first"] for rank in taken) - start
    testbed.release()
    rendezvous.publish("stop", None)
