"""The counters of the background thread: one table, from which the C struct and the docs come."""

from __future__ import annotations

import dataclasses
from typing import Any

CONTROLLERS = ("mpi", "gloo")
MESSAGES = ("none", "mpi", "tcp")


@dataclasses.dataclass(frozen=True)
class Counter:
    """One row of the table; `kind` is "i" (int64) or "d" (double) on the native side."""

    field: str
    kind: str
    help: str


def _counter(kind: str, help: str) -> Any:
    return dataclasses.field(metadata={"kind": kind, "help": help})


@dataclasses.dataclass(frozen=True)
class Stats:
    rank: int = _counter("i", "rank of this process")
    size: int = _counter("i", "number of ranks")
    mode: str = _counter("i", "the modes that are on, as in 'gs+nbcs', or 'off'")
    controller: str = _counter("i", "'mpi' or 'gloo'")
    messages: str = _counter(
        "i", "how planned tensors get to other nodes: 'mpi', 'tcp', or 'none' (mode topo)"
    )
    elapsed_seconds: float = _counter("d", "seconds since hvd.init()")
    cycles: int = _counter("i", "cycles of the background thread")
    cycles_slept: int = _counter("i", "cycles that began with a sleep")
    sleep_seconds: float = _counter("d", "seconds asleep between cycles")
    wait_seconds: float = _counter(
        "d", "seconds in the collectives of the negotiation, waiting for peers"
    )
    polls: int = _counter("i", "tests of an unfinished collective (modes nbcs and topo)")
    poll_sleep_seconds: float = _counter(
        "d", "the part of wait_seconds asleep between tests (modes nbcs and topo)"
    )
    data_seconds: float = _counter("d", "seconds performing collectives on tensors")
    data_bytes: int = _counter("i", "bytes of the tensors in those collectives")
    steps: int = _counter(
        "i", "steps of training, as far as reductions tell: how often the most frequent of the "
        "negotiated tensors was reduced, plus the planned iterations (mode topo)"
    )
    planned_iterations: int = _counter("i", "planned iterations, of all plans (mode topo)")
    planned_buckets: int = _counter("i", "buckets reduced without negotiation (mode topo)")
    planned_bytes: int = _counter("i", "bytes of the tensors in those buckets")
    planned_wakeups: int = _counter(
        "i", "times the planned path's thread woke up while it waited (mode topo)"
    )
    requested_rounds: int = _counter(
        "i", "rounds of negotiation that a rank asked for, the others being heartbeats (mode topo)"
    )
    steady_rounds: int = _counter(
        "i", "of requested_rounds, those between the first and the last planned iteration since "
        "the last vote on plans (mode topo)"
    )
    agreements: int = _counter(
        "i", "times this rank agreed with other nodes on which buckets are ready everywhere (mode "
        "topo)"
    )
    planned_latency_seconds: float = _counter(
        "d", "sum over the planned buckets of the time from this rank's last tensor to the result "
        "(mode topo)"
    )
    background_user_seconds: float = _counter("d", "CPU seconds of the background thread, user")
    background_system_seconds: float = _counter("d", "CPU seconds of the background thread, system")
    background_voluntary_switches: int = _counter(
        "i", "times the background thread gave up its core (context switches)"
    )
    background_involuntary_switches: int = _counter(
        "i", "times its core was taken from the background thread"
    )
    process_user_seconds: float = _counter("d", "CPU seconds of the whole process, user")
    process_system_seconds: float = _counter("d", "CPU seconds of the whole process, system")
    process_voluntary_switches: int = _counter(
        "i", "times threads of the process gave up their core"
    )
    process_involuntary_switches: int = _counter(
        "i", "times its core was taken from a thread of the process"
    )
    input_samples: int = _counter("i", "samples that this rank took (horovod_opt.io)")
    input_bytes: int = _counter("i", "bytes of those samples")
    input_samples_from_storage: int = _counter(
        "i", "of those samples, the ones that this rank's node has read from storage"
    )
    input_wait_seconds: float = _counter(
        "d", "seconds that this rank's training waited for its next batch"
    )
    input_node_bytes: int = _counter(
        "i", "bytes that the reader of a node has read from storage; on the rank that leads"
    )
    input_node_requests: int = _counter("i", "in so many requests")
    input_again_bytes: int = _counter(
        "i", "of those bytes, the ones of epochs after the first: what cache= may save"
    )
    input_kept_bytes: int = _counter("i", "bytes that the node keeps for the job (cache=)")
    input_peer_bytes: int = _counter("i", "bytes that came from other nodes' memory")
    input_peer_requests: int = _counter("i", "in so many requests")
    input_served_bytes: int = _counter("i", "bytes that went to other nodes")
    input_fallback_bytes: int = _counter(
        "i", "bytes that a node was to keep, but came from storage: it was lost, or had none"
    )

    @property
    def background_seconds(self) -> float:
        """CPU seconds of the background thread, user and system."""
        return self.background_user_seconds + self.background_system_seconds

    @property
    def process_seconds(self) -> float:
        """CPU seconds of the whole process, user and system."""
        return self.process_user_seconds + self.process_system_seconds


TABLE = tuple(Counter(field=field.name, **field.metadata) for field in dataclasses.fields(Stats))


def describe(indent: str = "") -> str:
    """One line per counter, with its unit, for docstrings."""
    width = max(len(row.field) for row in TABLE)
    return "".join(f"{indent}{row.field:{width}}  {row.help}\n" for row in TABLE)


Stats.__doc__ = f"What the background thread of one rank has done and cost.\n\n{describe()}"
