"""Parameters of the user's own job: from a profile, or from two points of a benchmark."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from graph_analysis.analysis import DEFAULT_THRESHOLD
from horovod_lab.profile.classes import BACKGROUND, HELPERS, INPUT
from horovod_lab.simulate import costs, model, summit
from horovod_lab.simulate.parameters import ParameterError, Setup

NETWORK = ("ring_hop_seconds", "ring_bandwidth", "tree_hop_intra_seconds", "tree_hop_inter_seconds",
           "tree_bandwidth", "hop_inter_seconds", "tcp_messages", "message_cpu_seconds",
           "link_bandwidth")
COMMON = {
    "cis_window": (1, "assumed: the CPU computes, and reads its input meanwhile"),
    "dispatches_per_second": (0, "assumed: a thread that computes does not sleep"),
    "nodes_per_machine": (1, "assumed: each node has cores of its own"),
    "timer_slack_seconds": summit.TABLE["timer_slack_seconds"],
    "gs_interval": summit.TABLE["gs_interval"],
    "nbcs_sleep_min_seconds": summit.TABLE["nbcs_sleep_min_seconds"],
    "nbcs_sleep_max_seconds": summit.TABLE["nbcs_sleep_max_seconds"],
    "heartbeat_seconds": summit.TABLE["heartbeat_seconds"],
    "request_seconds": summit.TABLE["request_seconds"],
    "poll_seconds": summit.TABLE["poll_seconds"],
    "yields": (1, "source of this project: mpi_yield_when_idle in every mode but off"),
    "hop_intra_seconds": (1e-6, "assumed"),
    "gradient_window": (2 / 3, "assumed: the backward pass takes twice as long as the forward one"),
    "tensors": (1, "assumed: chunks of exchanges are within tensors; tensor_seconds is 0"),
    "tensor_seconds": (0, "part of data_cpu_seconds_per_byte"),
    "fusion_bytes": (128 * 2**20, "Horovod 0.28.1's default"),
    "bucket_bytes": (DEFAULT_THRESHOLD, "docs/use/topo.md"),
    **{name: (summit.TABLE[name][0], f"of the Summit preset: {summit.TABLE[name][1]}")
       for name in NETWORK},
}
AS_ONE_PASS = "assumed: as data_cpu_seconds_per_byte; the network moves data without the CPU"
SLICE = "published: Linux, kernel/sched/fair.c, a slice"
CALIBRATION_STEPS = 20
EVALUATIONS = 4


def from_profile(document: dict[str, Any], settings: Mapping[str, float]) -> Setup:
    """Of a job that `horovod-opt profile` has seen.

    `settings` are the user's and win; "step_seconds" among them is the duration of a step.

    Raises:
        ParameterError: the profile lacks what is needed; names it and the remedy.
    """
    ranks = [rank for rank in document.get("ranks", []) if rank.get("classes")]
    if not ranks:
        raise ParameterError("the profile has no rank; remedy: profile a job that trains longer")
    count = len(ranks)
    stats = ranks[0].get("stats") or {}
    step = _step_seconds(stats, settings)
    cores, shared = _cores(document, ranks)
    origin = f"measured: profile of {count} ranks"
    spent = {name: statistics.fmean(_cores_of(rank, name) for rank in ranks)
             for name in ranks[0]["classes"]}
    work = step * sum(share for name, share in spent.items()
                      if name not in (BACKGROUND, HELPERS, INPUT))
    threads = max(1.0, work / step)
    pool = max((rank["classes"].get(INPUT, {}).get("threads", 0) for rank in ranks), default=0)
    late = [item for list_ in document.get("cycles", {}).get("oversleeps_seconds", {}).values()
            for item in list_]
    table = {
        **COMMON,
        "batch": (1, "not in a profile: images/s are steps/s of all ranks"),
        "ranks_per_node": (count, origin), "cores": (cores, origin),
        "shared_cores": (int(shared), origin),
        "compute_seconds": (work / threads, origin + ": CPU time a step of all classes but "
                            "background thread, helpers and input pipeline"),
        "compute_threads": (threads, origin),
        "input_threads": (pool, origin),
        "input_duty": (min(1.0, spent.get(INPUT, 0.0) / pool) if pool else 0.0, origin),
        "run_delay_seconds": (statistics.fmean(late) if late else 0.0,
                              origin + f": mean of {len(late)} oversleeps"),
        "cycle_seconds": (document.get("cycles", {}).get("cycle_time_seconds") or 1e-3, origin),
        **_data(stats, settings, step,
                min(1.0, cores / (count * (threads + 1))) if shared else 1.0),
    }
    table["message_cpu_seconds_per_byte"] = table["data_cpu_seconds_per_byte"][0], AS_ONE_PASS
    table |= {name: (value, "set") for name, value in settings.items() if name in table}
    return Setup.of("profile", table)


def profiled(document: dict[str, Any], settings: Mapping[str, float]) -> dict[str, Any]:
    """The job of a profile that `from_profile` accepts, to compare its simulation with."""
    first = document["ranks"][0]
    return {"mode": first.get("mode") or "off", "ranks": len(document["ranks"]),
            "step_seconds": _step_seconds(first.get("stats") or {}, settings)}


def _cores_of(rank: dict, name: str) -> float:
    """Cores that the class used, in the steady part of the job."""
    part = rank.get("steady") or rank
    cpu_times = part["classes"].get(name, {"user_seconds": 0, "system_seconds": 0})
    return (cpu_times["user_seconds"] + cpu_times["system_seconds"]) / max(part["seconds"], 1e-9)


def _step_seconds(stats: Mapping[str, Any], settings: Mapping[str, float]) -> float:
    if "step_seconds" in settings:
        if not 0 < settings["step_seconds"] < math.inf:
            raise ParameterError(
                f"step_seconds={settings['step_seconds']:g} is not a number above 0 (s)")
        return settings["step_seconds"]
    steps = stats.get("steps") or stats.get("planned_iterations")
    if not steps:
        raise ParameterError("the profile does not tell how many steps were trained; remedy: "
                             "--set step_seconds=... (seconds of a step in the profiled job)")
    return stats["elapsed_seconds"] / steps


def _cores(document: dict[str, Any], ranks: list[dict]) -> tuple[int, bool]:
    """(physical cores, whether the ranks share them); else each rank has so many."""
    masks = [set(rank["cpus"]) for rank in ranks]
    about = document["machine"]
    together = set().union(*masks)
    shared = len(together) < sum(map(len, masks))
    cpus = len(together) if shared else min(map(len, masks))
    return max(1, round(cpus * about["cores"] / about["cpus"])), shared


def _data(stats: Mapping[str, Any], settings: Mapping[str, float], step: float,
          share: float) -> dict[str, tuple[float, str]]:
    """How many bytes a step, and the CPU time of moving one. The background threads got `share`
    of a core meanwhile."""
    names = ("gradient_bytes", "data_cpu_seconds_per_byte")
    if all(name in settings for name in names):
        return {name: (settings[name], "set") for name in names}
    moved = stats.get("data_bytes", 0)
    if not moved or stats["size"] < 2 or stats["planned_bytes"]:
        raise ParameterError(
            "the profile does not tell what it costs the CPU to move the data (upstream's Horovod, "
            "one rank, or mode topo); remedy: profile mode off, or "
            + " ".join(f"--set {name}=..." for name in names))
    steps = stats["elapsed_seconds"] / step
    times = costs.passes(stats["size"], planned=False)
    return {
        "gradient_bytes": (moved / steps, "measured: stats"),
        "data_cpu_seconds_per_byte": (stats["data_seconds"] * share / moved / times,
                                      "measured: stats, times the share of a core"),
    }


def from_two_points(cores: int, ranks_per_node: int, threads: int, ranks: int, batch: float,
                    alone: float, mode: str, together: float, gradient_bytes: float,
                    seed: int) -> Setup:
    """Of nodes whose ranks share their cores and compute with so many threads each, from the
    seconds of a step of `ranks` ranks with no communication (`alone`) and in `mode` (`together`).

    The first gives the computation, the second the CPU time of moving data: that with which the
    simulated step is as long.
    """
    share = min(1.0, cores / (ranks_per_node * threads))
    setup = Setup.of("benchmark", {
        **COMMON,
        "batch": (batch, "measured"), "ranks_per_node": (ranks_per_node, "measured"),
        "cores": (cores, "measured"), "shared_cores": (1, "measured"),
        "compute_seconds": (alone * share,
                            f"calibrated: no communication, {ranks} ranks"),
        "compute_threads": (threads, "measured: intra-op threads"),
        "input_threads": (0, "part of the computation"),
        "input_duty": (0, "part of the computation"),
        "run_delay_seconds": (slice_seconds(cores), SLICE),
        "cycle_seconds": (1e-3, "Horovod 0.28.1's default"),
        "gradient_bytes": (gradient_bytes, "of the model"),
        "data_cpu_seconds_per_byte": (0, ""),
        "message_cpu_seconds_per_byte": (0, ""),
    })

    def with_data(cpu_seconds: float) -> Setup:
        return setup.changed(
            f"calibrated: {mode}, {ranks} ranks", data_cpu_seconds_per_byte=cpu_seconds
        ).changed(AS_ONE_PASS, message_cpu_seconds_per_byte=cpu_seconds)

    def too_long(cpu_seconds: float) -> float:
        p = with_data(cpu_seconds).parameters
        return statistics.fmean(
            model.simulate(p, mode, ranks, CALIBRATION_STEPS, seed).steps) - together

    return with_data(root(too_long, 0.0, together / gradient_bytes, EVALUATIONS))


def slice_seconds(cores: int) -> float:
    """For which Linux lets a thread run before it looks whether another one should."""
    return 0.75e-3 * cores.bit_length()


def root(function: Callable[[float], float], low: float, high: float, evaluations: int) -> float:
    """Where the growing `function` is 0, between `low` and `high`; `low` if it is above 0 there.

    False position with the Illinois rule (Dowell, Jarratt, 1971, doi:10.1007/BF01934364), which
    needs few evaluations."""
    below, above = function(low), function(high)
    if below >= 0:
        return low
    last = 0
    for _ in range(evaluations):
        middle = (low * above - high * below) / (above - below)
        value = function(middle)
        side = 1 if value > 0 else -1
        if value > 0:
            high, above = middle, value
            below /= 2 if last == side else 1
        else:
            low, below = middle, value
            above /= 2 if last == side else 1
        last = side
    return middle
