"""Parameters of a machine that plays nodes: from what `horovod-opt bench nodes` measured on it.

Four of its cells calibrate, and in none of them does training meet messages: training without
communication, and single allreduces within a node and between two.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from horovod_lab.bench.nodes.rows import ONE_NODE, PAIR, SIZE_LARGE, TOPO, Layout
from horovod_lab.bench.worker_job import LIMIT
from horovod_lab.simulate import calibrate, costs, summit
from horovod_lab.simulate.nonblocking_allreduce import nonblocking_allreduce
from horovod_lab.simulate.parameters import ParameterError, Setup

UNLIMITED = 1e15  # bytes/s
# Of the Ethernet frame of 1514 bytes that Linux counts, a segment of TCP fills so much.
PAYLOAD = 1448 / 1514


@dataclass(frozen=True)
class Calibrating:
    """A cell of the benchmark."""

    workload: str
    layout: Layout
    series: str

    def __str__(self) -> str:
        return f"{self.workload} {self.layout.name} {self.series}"


ALONE = Calibrating("resnet50", PAIR, LIMIT)
WITHIN = Calibrating("large", ONE_NODE, TOPO)
BETWEEN = Calibrating("large", PAIR, TOPO)
LITTLE = Calibrating("small", PAIR, TOPO)
CELLS = (ALONE, WITHIN, BETWEEN, LITTLE)


def of_cell(document: dict[str, Any], cell: Calibrating) -> list[dict[str, Any]]:
    """Its measurements that did not fail, and have the counters of all ranks if they need them."""
    return [job for job in document["measurements"]
            if (job["workload"], job["layout"], job["series"])
            == (cell.workload, cell.layout.name, cell.series) and "failed" not in job
            and (cell is ALONE or job["stats"])]


def check(document: dict[str, Any]) -> None:
    """Raises ParameterError if a cell was not measured that calibrates; names them all."""
    absent = [cell for cell in CELLS if not of_cell(document, cell)]
    if absent:
        remedies = dict.fromkeys(
            f"horovod-opt bench nodes --only {cell.workload} --layouts {cell.layout.name}"
            for cell in absent)
        raise ParameterError(
            f"the benchmark lacks what calibrates: {', '.join(map(str, absent))}; remedy: "
            f"{'; '.join(remedies)}, with its --output, which adds to the file")


def from_nodes(document: dict[str, Any]) -> Setup:
    """Of two hosts of one rank each: `in_layout` has others.

    CPU times are those that the threads of Horovod used, so a machine on which something else runs
    shows the same. Raises ParameterError as `check` does.
    """
    check(document)

    def median(cell: Calibrating, value: Callable[[dict[str, Any]], float]) -> float:
        return statistics.median(value(job) for job in of_cell(document, cell))

    cores = document["machine"]["cores"]
    step, rate = (median(ALONE, lambda job: job[name])
                  for name in ("step_seconds", "images_per_second"))
    poll = calibrate.COMMON["poll_seconds"][0]
    within = median(WITHIN, horovods_cpu) - poll * costs.barriers(ONE_NODE.ranks, SIZE_LARGE)
    a_message = median(LITTLE, horovods_cpu) / 2  # one is sent, and one received
    parts = nonblocking_allreduce(PAIR.hosts, SIZE_LARGE)
    between = median(BETWEEN, horovods_cpu) - 2 * a_message * parts.exposed
    setup = Setup.of("nodes", {
        **calibrate.COMMON,
        "batch": (round(rate * step / PAIR.ranks), "measured"),
        "ranks_per_node": (1, "of the layout"), "nodes_per_machine": (1, "of the layout"),
        "cores": (cores, "measured"), "shared_cores": (1, "virtual hosts share the machine"),
        "compute_seconds": (step * min(1.0, cores / PAIR.ranks), f"calibrated: {ALONE}"),
        "compute_threads": (1, "measured: intra-op threads"),
        "input_threads": (0, "part of the computation"),
        "input_duty": (0, "part of the computation"),
        "run_delay_seconds": (calibrate.slice_seconds(cores), calibrate.SLICE),
        "cycle_seconds": (1e-3, "Horovod 0.28.1's default"),
        "gradient_bytes": (SIZE_LARGE, "measured, by series"),
        "tensors": summit.TABLE["tensors"],
        "data_cpu_seconds_per_byte": (
            max(within / costs.passes(ONE_NODE.ranks, planned=True) / SIZE_LARGE, 1e-15),
            f"calibrated: {WITHIN}, CPU time"),
        "tcp_messages": (1, "assumed: MPI would use TCP itself between virtual hosts"),
        "message_cpu_seconds": (a_message, f"calibrated: {LITTLE}, CPU time"),
        "message_cpu_seconds_per_byte": (max(between / parts.bytes, 0.0),
                                         f"calibrated: {BETWEEN}, CPU time"),
        "hop_inter_seconds": (median(LITTLE, _without_the_framework),
                              f"calibrated: {LITTLE}, without the framework's CPU time"),
        "link_bandwidth": (UNLIMITED, "of the layout"),
    })
    return in_layout(setup, PAIR)


def in_layout(setup: Setup, layout: Layout) -> Setup:
    """The same machine, that plays other nodes."""
    return setup.changed(
        f"of the layout {layout.name}", ranks_per_node=layout.per_host,
        nodes_per_machine=layout.hosts,
        link_bandwidth=UNLIMITED if layout.megabits is None
        else layout.megabits * 1e6 / 8 * PAYLOAD)


def horovods_cpu(job: dict[str, Any], divisor: str = "planned_buckets") -> float:
    """CPU seconds of Horovod's threads for `each` of what the counter counts, mean over ranks."""
    return statistics.fmean(
        (stats["background_user_seconds"] + stats["background_system_seconds"]) / stats[divisor]
        for stats in job["stats"])


def _without_the_framework(job: dict[str, Any]) -> float:
    """Seconds of an allreduce, less the CPU time of all other threads of the process."""
    of_framework = statistics.fmean(
        sum(stats[f"process_{kind}_seconds"] - stats[f"background_{kind}_seconds"]
            for kind in ("user", "system")) / stats["planned_buckets"] for stats in job["stats"])
    return max(1e-6 * job["microseconds"] - of_framework, 1e-6)
