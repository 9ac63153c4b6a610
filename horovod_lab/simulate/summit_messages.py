"""What the way of messages between nodes makes of topo on Summit. Predictions all of them: the
source's topo sends none, and nothing was fitted with these in view."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from horovod_lab.bench.worker_job import BASE
from horovod_lab.simulate import model, summit

# A message over IP over InfiniBand takes about as long as over fast Ethernet: both are assumed.
WAYS = (
    ("by MPI, tested with naps", {}),
    ("the same, without rounds of negotiation", {"heartbeat_seconds": 60}),
    ("over TCP, 20 us a message", {"tcp_messages": 1, "hop_inter_seconds": 20e-6,
                                   "message_cpu_seconds": 10e-6}),
    ("over TCP, 50 us a message", {"tcp_messages": 1, "hop_inter_seconds": 50e-6,
                                   "message_cpu_seconds": 20e-6}),
)


def ways(results: Sequence[dict], steps: int, seed: int) -> list[dict[str, Any]]:
    """topo's gain over off at the largest number of ranks, for each of WAYS; none if off was not
    simulated there."""
    base = next((row for row in results
                 if (row["mode"], row["ranks"]) == (BASE, summit.LARGEST)), None)
    if base is None:
        return []
    rows = []
    for text, values in WAYS:
        p = summit.setup().changed("assumed", **values).parameters
        topo = statistics.fmean(model.simulate(p, "topo", summit.LARGEST, steps, seed).steps)
        rows.append({"messages": text, "ranks": summit.LARGEST,
                     "simulated": base["step_seconds"]["mean"] / topo - 1})
    return rows
