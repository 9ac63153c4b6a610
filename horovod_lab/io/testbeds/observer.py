"""Beside the ranks of a job: says when they begin and stop, and measures what they use."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from horovod_lab.io.testbeds.meeting import Meeting
from horovod_lab.io.testbeds.processes import cpu_seconds, memory
from horovod_opt.io.order.relative_entropy import measure_rl

LEAD_SECONDS = 0.3  # for every rank to hear when it begins


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--meeting", type=Path, required=True)
    for name in "records", "ranks", "parent":
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    meeting = Meeting(options.meeting, options.parent)
    ready = meeting.hear_all("ready", options.ranks)
    used = _observe(meeting, [one["pid"] for one in ready], options.seconds, options.ranks)
    meeting.tell("result", {**used, **shuffle(
        [np.array(one["numbers"]) for one in ready], [one["sizes"] for one in ready],
        options.records)})


def _observe(meeting: Meeting, pids: list[int], seconds: float, ranks: int) -> dict[str, Any]:
    start = time.monotonic() + LEAD_SECONDS
    meeting.tell("go", {"start": start, "end": start + seconds})
    time.sleep(max(0.0, start - time.monotonic()))
    before = cpu_seconds(pids)
    time.sleep(max(0.0, start + seconds - time.monotonic()))
    cpu = cpu_seconds(pids) - before
    done = meeting.hear_all("done", ranks)
    used = memory(pids)  # all ranks still go on
    meeting.tell("stop", None)
    samples = sum(one["samples"] for one in done)
    return {"samples": samples,
            "samples_per_second": sum(one["samples"] / one["seconds"] for one in done),
            "by_rank": [one["samples"] for one in done],
            "cpu_seconds_per_million": cpu / samples * 1e6, "processes": used["processes"],
            "pss_bytes": used["Pss"], "pss_file_bytes": used["Pss_File"]}


def shuffle(numbers: list[np.ndarray], sizes: list[list[int]], records: int) -> dict[str, float]:
    """Of an epoch: `rl`, the relative entropy of its order over all ranks, who take their batches
    in turn; `missing` and `repeated` records. By rank: the numbers of the records, the batches'
    sizes."""
    stream = np.concatenate(in_turn(numbers, sizes))
    seen = len(np.unique(stream))
    return {"rl": measure_rl(stream, records), "missing": records - seen,
            "repeated": len(stream) - seen}


def in_turn(numbers: list[np.ndarray], sizes: list[list[int]]) -> list[np.ndarray]:
    """The batches of all ranks: each rank's first, then each rank's second, ..."""
    batches = [np.split(mine, np.cumsum(each)[:-1]) for mine, each in zip(numbers, sizes)]
    return [mine[step] for step in range(max(map(len, batches))) for mine in batches
            if step < len(mine)]


if __name__ == "__main__":
    main()
