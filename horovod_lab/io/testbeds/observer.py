"""Beside the ranks of a job: says when they begin and stop, and measures what they use."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from horovod_lab.io.testbeds.processes import cpu_seconds, memory
from horovod_lab.io.testbeds.rendezvous import Rendezvous
from horovod_opt.io.order.rank_view import look, runs_of
from horovod_opt.io.order.relative_entropy import measure_rl

LEAD_SECONDS = 0.3  # for every rank to hear when it begins


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rendezvous", type=Path, required=True)
    for name in "records", "ranks", "parent":
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    rendezvous = Rendezvous(options.rendezvous, options.parent)
    ready = rendezvous.wait_for_all("ready", options.ranks)
    usage = _observe(rendezvous, [rank["pid"] for rank in ready], options.seconds, options.ranks)
    rendezvous.publish("result", {**usage, **shuffle(
        [np.array(rank["numbers"]) for rank in ready], [rank["sizes"] for rank in ready],
        options.records)})


def _observe(rendezvous: Rendezvous, pids: list[int], seconds: float, ranks: int) -> dict[str, Any]:
    start = time.monotonic() + LEAD_SECONDS
    rendezvous.publish("go", {"start": start, "end": start + seconds})
    time.sleep(max(0.0, start - time.monotonic()))
    before = cpu_seconds(pids)
    time.sleep(max(0.0, start + seconds - time.monotonic()))
    cpu = cpu_seconds(pids) - before
    done = rendezvous.wait_for_all("done", ranks)
    usage = memory(pids)  # all ranks still go on
    rendezvous.publish("stop", None)
    samples = sum(rank["samples"] for rank in done)
    return {"samples": samples,
            "samples_per_second": sum(rank["samples"] / rank["seconds"] for rank in done),
            "by_rank": [rank["samples"] for rank in done],
            "cpu_seconds_per_million": cpu / samples * 1e6, "processes": usage["processes"],
            "pss_bytes": usage["Pss"], "pss_file_bytes": usage["Pss_File"]}


def shuffle(numbers: list[np.ndarray], sizes: list[list[int]], records: int) -> dict[str, float]:
    """Of an epoch: `rl`, the relative entropy of its order over all ranks, whose batches follow
    each other round robin; `rank_rl` and `rank_classes`, what each rank sees: the least relative
    entropy of its own records, and of how many runs of the data its batches are, of those of
    independent draws; `missing` and `repeated` records. By rank: the numbers of the records, the
    batches' sizes."""
    stream = np.concatenate(round_robin(numbers, sizes))
    distinct = len(np.unique(stream))
    view = look(numbers, sizes, runs_of(records))
    return {"rl": measure_rl(stream, records), "rank_rl": view.rl, "rank_classes": view.part,
            "missing": records - distinct, "repeated": len(stream) - distinct}


def round_robin(numbers: list[np.ndarray], sizes: list[list[int]]) -> list[np.ndarray]:
    """The batches of all ranks: each rank's first, then each rank's second, ..."""
    batches = [np.split(rank_numbers, np.cumsum(rank_sizes)[:-1])
               for rank_numbers, rank_sizes in zip(numbers, sizes)]
    return [rank_batches[step] for step in range(max(map(len, batches)))
            for rank_batches in batches if step < len(rank_batches)]


if __name__ == "__main__":
    main()
