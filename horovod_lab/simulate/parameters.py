"""What the model is told: one table with the unit, the range and the meaning of every parameter."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping


class ParameterError(Exception):
    """A parameter is unknown, missing or out of range; the text says which and what is allowed."""


def _parameter(unit: str, low: float, high: float, help: str, whole: bool = False) -> float:
    return dataclasses.field(
        metadata={"unit": unit, "low": low, "high": high, "help": help, "whole": whole})


@dataclasses.dataclass(frozen=True)
class Parameters:
    batch: float = _parameter("images", 1, 1e6, "images a rank computes in a step", True)
    ranks_per_node: float = _parameter("ranks", 1, 1024, "ranks of a node", True)
    cores: float = _parameter(
        "cores", 1, 4096, "of a rank, or of the node if its ranks share them", True)
    shared_cores: float = _parameter("0 or 1", 0, 1, "whether a node's ranks share its cores", True)
    nodes_per_machine: float = _parameter(
        "nodes", 1, 1024, "that share its cores with shared_cores: virtual hosts", True)
    compute_seconds: float = _parameter(
        "s", 1e-6, 1e4, "forward and backward pass of a rank, with as many cores as it wants")
    cis_window: float = _parameter(
        "of compute", 0, 1, "first part of the pass: needs the CPU, and the input pipeline runs")
    compute_threads: float = _parameter(
        "threads", 0.01, 4096, "threads of a rank that compute or schedule in that window")
    input_threads: float = _parameter("threads", 0, 4096, "the input pipeline's pool", True)
    input_duty: float = _parameter("of time", 0, 1, "how long each of them wants a core")
    dispatches_per_second: float = _parameter(
        "1/s", 0, 1e6, "how often graph scheduling wakes up in the window and looks for a core")
    run_delay_seconds: float = _parameter(
        "s", 0, 10, "mean time a thread waits that wakes up while no core is idle")
    timer_slack_seconds: float = _parameter("s", 0, 0.1, "added to every sleep by the kernel")
    cycle_seconds: float = _parameter("s", 1e-5, 10, "HOROVOD_CYCLE_TIME")
    gs_interval: float = _parameter("cycles", 1, 1e6, "HOROVOD_OPT_GS_INTERVAL", True)
    nbcs_sleep_min_seconds: float = _parameter("s", 1e-6, 1, "HOROVOD_OPT_NBCS_SLEEP_MIN_US")
    nbcs_sleep_max_seconds: float = _parameter("s", 1e-6, 1, "HOROVOD_OPT_NBCS_SLEEP_MAX_US")
    heartbeat_seconds: float = _parameter("s", 1e-3, 60, "HOROVOD_OPT_HEARTBEAT_MS")
    request_seconds: float = _parameter(
        "s", 0, 1e6, "topo: from one negotiated tensor, such as a metric, to the next; 0: none")
    poll_seconds: float = _parameter(
        "s", 0, 0.1, "CPU time of a wake-up with a test or a small allreduce")
    yields: float = _parameter(
        "0 or 1", 0, 1, "whether MPI yields its core while it waits, in every mode but off", True)
    hop_intra_seconds: float = _parameter("s", 0, 1, "one small message within a node")
    hop_inter_seconds: float = _parameter("s", 0, 1, "one small message between nodes")
    tcp_messages: float = _parameter(
        "0 or 1", 0, 1, "topo between nodes: TCP, which wakes who waits; 0: MPI, tested", True)
    message_cpu_seconds: float = _parameter(
        "s", 0, 1, "topo: CPU time at each end of a message that is waited for; of a test")
    message_cpu_seconds_per_byte: float = _parameter(
        "s/byte", 0, 1, "topo: CPU time of sending a byte, receiving one and adding")
    link_bandwidth: float = _parameter("bytes/s", 1, 1e15, "of a node, each way")
    gradient_bytes: float = _parameter("bytes", 1, 1e13, "all gradients of a rank")
    gradient_window: float = _parameter(
        "of compute", 0, 1, "last part of the pass, over which gradients appear; 0: all at its end")
    tensors: float = _parameter("tensors", 1, 1e6, "gradients of a rank", True)
    tensor_seconds: float = _parameter("s", 0, 1, "host time of a tensor, into a buffer and back")
    fusion_bytes: float = _parameter("bytes", 1, 1e13, "HOROVOD_FUSION_THRESHOLD")
    bucket_bytes: float = _parameter("bytes", 1, 1e13, "largest bucket of mode topo")
    data_cpu_seconds_per_byte: float = _parameter(
        "s/byte", 0, 1, "CPU time of going through the data once within a node; 0: the GPUs do it")
    ring_hop_seconds: float = _parameter("s", 0, 1, "ring allreduce: each rank but one")
    ring_bandwidth: float = _parameter("bytes/s", 1, 1e15, "ring allreduce: bytes reduced a second")
    tree_hop_intra_seconds: float = _parameter("s", 0, 1, "tree: each rank of a node but one")
    tree_hop_inter_seconds: float = _parameter("s", 0, 1, "tree: each level above the nodes")
    tree_bandwidth: float = _parameter("bytes/s", 1, 1e15, "tree allreduce: bytes reduced a second")

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check(field, getattr(self, field.name))
        if self.nbcs_sleep_min_seconds > self.nbcs_sleep_max_seconds:
            raise ParameterError(
                f"nbcs_sleep_min_seconds={self.nbcs_sleep_min_seconds:g} is above "
                f"nbcs_sleep_max_seconds={self.nbcs_sleep_max_seconds:g}")

    @property
    def ranks_per_domain(self) -> int:
        """Ranks that compete for the same cores."""
        return int(self.ranks_per_node * self.nodes_per_machine) if self.shared_cores else 1


FIELDS = {field.name: field for field in dataclasses.fields(Parameters)}


def _check(field: dataclasses.Field, value: float) -> None:
    low, high = field.metadata["low"], field.metadata["high"]
    whole = field.metadata["whole"]
    if not (math.isfinite(value) and low <= value <= high and (not whole or value == int(value))):
        raise ParameterError(
            f"{field.name}={value:g} is not a {'whole ' if whole else ''}number from {low:g} to "
            f"{high:g} ({field.metadata['unit']}: {field.metadata['help']})")


@dataclasses.dataclass(frozen=True)
class Setup:
    """Parameters and where each comes from."""

    name: str
    parameters: Parameters
    origins: Mapping[str, str]

    @classmethod
    def of(cls, name: str, table: Mapping[str, tuple[float, str]]) -> Setup:
        """From (value, origin) by name. Raises ParameterError for a value that cannot be used."""
        return cls(name, Parameters(**{key: value for key, (value, _) in table.items()}),
                   {key: origin for key, (_, origin) in table.items()})

    def changed(self, origin: str, **values: float) -> Setup:
        """The same with other values. Raises ParameterError."""
        return dataclasses.replace(
            self, parameters=dataclasses.replace(self.parameters, **values),
            origins={**self.origins, **{name: origin for name in values}})

    def to_json(self) -> dict[str, dict]:
        return {name: {"value": getattr(self.parameters, name), "unit": field.metadata["unit"],
                       "origin": self.origins[name], "meaning": field.metadata["help"]}
                for name, field in FIELDS.items()}


def parse_settings(texts: Iterable[str], also: Iterable[str] = ()) -> dict[str, float]:
    """NAME=VALUE as a dict; `also` are names that are allowed beside the parameters'.

    Raises:
        ParameterError: a name is unknown or a value is no number.
    """
    settings = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or name not in {*FIELDS, *also}:
            raise ParameterError(
                f"--set {text}: {name!r} is no parameter; there are {', '.join([*FIELDS, *also])}")
        try:
            settings[name] = float(value)
        except ValueError:
            raise ParameterError(f"--set {text}: {value!r} is no number") from None
    return settings
