"""The preset for ResNet50 on Summit, and what the source measured there.

The source is Pumma, Scalability Analysis and Optimization for Large-Scale Deep Learning, 2019,
Chapter 6; sections are its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from horovod_lab.bench.worker_job import BASE
from horovod_lab.measuring import literature
from horovod_lab.measuring.literature import Reported
from horovod_lab.simulate import model
from horovod_lab.simulate.parameters import Setup

NCCL = "published: NCCL 2.4.7, src/init.cc, ncclTreeThreshold"
RESNET50 = "published: He et al., 2016, doi:10.1109/CVPR.2016.90"
NETWORK = "assumed: between neighbours in EDR InfiniBand, with the MPI's own work"
POLL = "measured here: gs takes 2.9 to 5.0 % of a core in cycles of 1 ms, idle (README)"
OURS = "default of the setting (docs/use/settings.md)"

TABLE: dict[str, tuple[float, str]] = {
    "batch": (32, "source, 6.4.1"),
    "ranks_per_node": (6, "source, 6.2.1"),
    "cores": (7, "source, 6.2.1"),
    "shared_cores": (0, "source, 6.2.1: each rank has cores of its own"),
    "nodes_per_machine": (1, "source, 6.2.1"),
    "compute_seconds": (0.060, "assumed: 530 images/s of a V100 at batch 32, mixed precision"),
    "cis_window": (literature.CIS_WINDOW["ResNet50"],
                   "source, 6.4.2: CIS window of ResNet50, of the step; here of the compute"),
    "compute_threads": (1, "assumed: one thread schedules XLA's few clusters"),
    "input_threads": (7, "assumed: a pool as large as there are cores"),
    "input_duty": (0.78, "FITTED"),
    "dispatches_per_second": (35, "FITTED: about once a window, the best of 1, 2, 3, 5, 10, 20"),
    "run_delay_seconds": (0.0097, "FITTED"),
    "timer_slack_seconds": (50e-6, "published: prctl(2), PR_SET_TIMERSLACK: 50 us by default"),
    "cycle_seconds": (0.005, "source, 6.2.2"),
    "gs_interval": (1, "source, 6.3.1"),
    "nbcs_sleep_min_seconds": (20e-6, OURS),
    "nbcs_sleep_max_seconds": (500e-6, OURS),
    "heartbeat_seconds": (0.1, OURS),
    "request_seconds": (0, "assumed: only gradients are reduced"),
    "poll_seconds": (30e-6, POLL),
    "yields": (0, "source, 6.2.4: MPI_Allreduce spins"),
    "hop_intra_seconds": (1e-6, NETWORK),
    "hop_inter_seconds": (2e-6, NETWORK),
    "tcp_messages": (0, "assumed: MPI uses InfiniBand itself, and is not slower: docs/use/topo.md"),
    "message_cpu_seconds": (2e-6, "assumed: about what a call of MPI over InfiniBand takes"),
    "message_cpu_seconds_per_byte": (0, "assumed: the GPUs move the data"),
    "link_bandwidth": (25e9, "published: Vazhkudai et al., 2018, doi:10.1109/SC.2018.00055: two "
                             "rails of EDR InfiniBand"),
    "gradient_bytes": (25_557_032 * 4, RESNET50 + ": 25.6 million parameters of 4 bytes"),
    "gradient_window": (0, "source, 6.2.1: XLA disables any overlap"),
    "tensors": (161, RESNET50 + ": convolutions, batch normalizations, dense layer"),
    "tensor_seconds": (10e-6, "assumed: two copies on the GPU are started for each tensor"),
    "fusion_bytes": (64 * 2**20, "source, 6.3.4"),
    "bucket_bytes": (64 * 2**20, "source, 6.3.4"),
    "data_cpu_seconds_per_byte": (0, "source, 6.2.3: NCCL"),
    "ring_hop_seconds": (6e-6, NCCL),
    "ring_bandwidth": (10e9, NCCL + ": 5 GB/s a channel; two channels, as two EDR rails carry"),
    "tree_hop_intra_seconds": (4e-6, NCCL),
    "tree_hop_inter_seconds": (15e-6, NCCL),
    "tree_bandwidth": (7.5e9, NCCL + ": three quarters of the ring's"),
}
LARGEST = 24_576


def setup() -> Setup:
    return Setup.of("summit", TABLE)


@dataclass(frozen=True)
class Figure:
    """A number of the source. `kind` says how it is found in the results, at the largest number of
    ranks; `fitted`: whether it was used to choose parameters."""

    text: str
    where: str
    kind: str
    mode: str
    reported: Reported
    fitted: bool = False


FIGURES = (
    Figure("weak-scaling efficiency, off", "6.2.3", "efficiency", "off",
           literature.EFFICIENCY, fitted=True),
    Figure("allreduce in a step, off", "6.2.3", "allreduce", "off", literature.ALLREDUCE),
    Figure("of it idle GPU, off", "6.2.3", "idle", "off", literature.IDLE),
    *(Figure(f"background overhead in a step, {mode}", "6.4.1", "overhead", mode, reported)
      for mode, reported in literature.OVERHEAD.items()),
    *(Figure(f"improvement, {mode}", "6.4.1", "improvement", mode, reported,
             fitted=mode in ("gs", "nbcs", "topo"))
      for mode, reported in literature.GAIN.items()),
    Figure("background thread's CPU, off", "6.2.5", "background_cpu", "off",
           literature.BACKGROUND_CPU["off"]),
    Figure("background thread's CPU, topo", "6.4.1", "background_cpu", "topo",
           literature.BACKGROUND_CPU["topo"]),
)


@dataclass(frozen=True)
class Network:
    """Billions of multiply-adds an image and millions of parameters, as its authors give them."""

    name: str
    multiply_adds: float
    parameters: float


NETWORKS = (
    # He et al., 2016, doi:10.1109/CVPR.2016.90, table 1
    Network("ResNet18", 1.8, 11.7), Network("ResNet34", 3.6, 21.8), Network("ResNet50", 3.8, 25.6),
    Network("ResNet101", 7.6, 44.5), Network("ResNet152", 11.3, 60.2),
    # Szegedy et al., 2015, doi:10.1109/CVPR.2015.7298594, and 2016, doi:10.1109/CVPR.2016.308
    Network("GoogLeNet", 1.5, 6.8), Network("Inception-v3", 5.0, 23.8),
    # Simonyan, Zisserman, 2015, arXiv:1409.1556
    Network("VGG16", 15.3, 138.4),
)
FITTED_NETWORK = "ResNet50"
NETWORKS_RANKS = 1_536
NETWORKS_STEPS = 100
HIT = 0.15  # relative difference up to which a figure counts as met; a range is not widened


def is_met(value: float, low: float, high: float) -> bool:
    """Whether the source says the same: near its figure, or inside its range."""
    return low <= value <= high if low < high else abs(value - low) <= HIT * low


def compare(results: Sequence[dict]) -> list[dict[str, Any]]:
    """The source's figures beside the results' at LARGEST ranks, if those were simulated."""
    rows = []
    for figure in FIGURES:
        of_mode = [row for row in results if row["mode"] == figure.mode]
        row = next((row for row in of_mode if row["ranks"] == LARGEST), None)
        if row is None or _value(row, figure.kind) is None:
            continue
        value = _value(row, figure.kind)
        rows.append({
            "figure": figure.text, "section": figure.where,
            "source": list(figure.reported.bounds),
            "simulated": value, "fitted": figure.fitted,
            "largest": max(_value(row_of_mode, figure.kind) for row_of_mode in of_mode)
            if figure.kind == "improvement" else None,
            "met": is_met(value, *figure.reported.bounds)})
    return rows


def complete(rows: Sequence[dict] | None) -> list[dict]:
    """Rows of `compare` or `networks`, as files have them: older ones do not say what was used for
    fitting, nor whether a figure is met."""
    return [{"fitted": row.get("network") == FITTED_NETWORK
             or any(figure.text == row.get("figure") and figure.fitted for figure in FIGURES),
             "met": is_met(row["simulated"], *row["source"])
             if row.get("source") else None, **row}
            for row in rows or ()]


def counts(rows: Sequence[dict]) -> str:
    """How many of the source's figures are met, those used for fitting apart: "Of 8 ..."."""
    def count_met(is_fitted: bool) -> tuple[int, int]:
        answers = [row["met"] for row in rows if row["source"] and row["fitted"] == is_fitted]
        return sum(answers), len(answers)

    (predicted, predictions), (near, fits) = count_met(False), count_met(True)
    return (f"Of {predictions} figures that were not used for fitting, {predicted} are met; of "
            f"{fits} that were, {near}.")


def _value(row: dict, kind: str) -> float | None:
    parts = row["breakdown"]
    step = row["step_seconds"]["mean"]
    return {
        "efficiency": row["efficiency"], "improvement": row["improvement_over_off"],
        "background_cpu": row["background_cpu"], "overhead": parts["overhead"] / step,
        "allreduce": (parts["overhead"] + parts["data"]) / step,
        "idle": parts["overhead"] / (parts["overhead"] + parts["data"] or 1),
    }[kind]


def networks(seed: int) -> list[dict[str, Any]]:
    """topo's gain over off for each network: its computation is as much longer than ResNet50's as
    it has more to compute, its gradients and its CIS window are its own, all else is the same."""
    base = next(network for network in NETWORKS if network.name == FITTED_NETWORK)
    rows = []
    for network in NETWORKS:
        p = setup().changed(
            "published", cis_window=literature.CIS_WINDOW[network.name],
            gradient_bytes=4e6 * network.parameters,
            compute_seconds=TABLE["compute_seconds"][0] * network.multiply_adds
            / base.multiply_adds,
        ).parameters
        off, topo = (statistics.fmean(
            model.simulate(p, mode, NETWORKS_RANKS, NETWORKS_STEPS, seed).steps)
            for mode in ("off", "topo"))
        gain = off / topo - 1
        reported = literature.NETWORK_GAIN.get(network.name)
        source = reported.bounds if reported else None
        rows.append({"network": network.name, "ranks": NETWORKS_RANKS,
                     "window": literature.CIS_WINDOW[network.name], "source": source,
                     "simulated": gain, "fitted": network is base,
                     "met": is_met(gain, *source) if source else None})
    return rows


# What the way of messages between nodes makes of topo. Predictions all of them: the source's topo
# sends none, and nothing was fitted with these in view.

# A message over IP over InfiniBand takes about as long as over fast Ethernet: both are assumed.
MESSAGE_WAYS = (
    ("by MPI, tested with naps", {}),
    ("the same, without rounds of negotiation", {"heartbeat_seconds": 60}),
    ("over TCP, 20 us a message", {"tcp_messages": 1, "hop_inter_seconds": 20e-6,
                                   "message_cpu_seconds": 10e-6}),
    ("over TCP, 50 us a message", {"tcp_messages": 1, "hop_inter_seconds": 50e-6,
                                   "message_cpu_seconds": 20e-6}),
)


def message_ways(results: Sequence[dict], steps: int, seed: int) -> list[dict[str, Any]]:
    """topo's gain over off at the largest number of ranks, for each of MESSAGE_WAYS; none if off
    was not simulated there."""
    base = next((row for row in results
                 if (row["mode"], row["ranks"]) == (BASE, LARGEST)), None)
    if base is None:
        return []
    rows = []
    for text, values in MESSAGE_WAYS:
        p = setup().changed("assumed", **values).parameters
        topo = statistics.fmean(model.simulate(p, "topo", LARGEST, steps, seed).steps)
        rows.append({"messages": text, "ranks": LARGEST,
                     "simulated": base["step_seconds"]["mean"] / topo - 1})
    return rows
