"""What the trainings amount to: what prefetching hides, and what checkpoints cost."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any, Optional

MIB = 1 << 20
DISK, MEMORY, BATCHES = INPUT = ("disk", "memory", "batches")
NONE, SLOW, FAST, BURST = WAYS = ("none", "slow", "fast", "burst")
# What is measured, and what it is called.
PARTS = {DISK: "input from a disk", MEMORY: "input from memory", BATCHES: "sizes of a batch, disk",
         NONE: "no checkpoints", SLOW: "checkpoints to slow", FAST: "checkpoints to fast",
         BURST: "checkpoints by BurstBuffer"}
# Of storages for checkpoints, bytes a second: their ratio is that of the source's Table I.
SPEEDS = {SLOW: 40 * MIB, FAST: 3.8 * 40 * MIB}
BATCH, PREFETCH, THREADS = 64, 1, 8  # the source's, where nothing else is said
CHECKPOINTS = 5  # of a training
LOST, SECONDS = "lost_seconds", "seconds"
TARGET = 2.6  # C3

Measured = Mapping[str, Any]


def measured(document: Mapping[str, Any], **about: Any) -> list[Measured]:
    """Those of all rounds that did not fail, and are so."""
    return [each for each in document["measurements"] if "failed" not in each
            and all(each[name] == value for name, value in about.items())]


def median(found: Iterable[Measured], key: str) -> Optional[float]:
    values = [value(each, key) for each in found]
    return statistics.median(values) if values else None


def value(each: Measured, key: str) -> float:
    """Also of what is counted from it."""
    if key == LOST:
        return sum(each["saved_seconds"])
    if key == "checkpoint_seconds":
        return statistics.median(each["saved_seconds"])
    if key == "waiting":
        return each["waited_seconds"] / each[SECONDS]
    if key == "behind_seconds":
        return each["whole_seconds"] - each[SECONDS]
    return each[key]


def input_time(document: Mapping[str, Any], key: str = SECONDS, **about: Any) -> Optional[float]:
    """The median over rounds of a training without checkpoints; batches of the source's size are
    measured with the disk."""
    if about.get("part") == BATCHES and about.get("batch") == BATCH:
        about["part"] = DISK
    return median(measured(document, **about), key)


def over(document: Mapping[str, Any], way: str, base: str, key: str) -> Optional[float]:
    """Of two ways to save, the median of one over that of the other."""
    of, by = (median(measured(document, part=part), key) for part in (way, base))
    return None if of is None or not by else of / by


def unevenness(document: Mapping[str, Any]) -> Optional[float]:
    """With prefetching: the time of the slowest over that of the fastest, of all numbers of threads
    on both storages."""
    times = [input_time(document, part=part, threads=threads, prefetch=PREFETCH)
             for part in (DISK, MEMORY) for threads in document["settings"]["threads"]]
    return max(times) / min(times) if times and None not in times else None


def by_batch(document: Mapping[str, Any], prefetch: int) -> Optional[float]:
    """The time with the largest batch over that with the smallest."""
    sizes = document["settings"]["batch"]
    small, large = (input_time(document, part=BATCHES, batch=size, threads=THREADS,
                               prefetch=prefetch) for size in (sizes[0], sizes[-1]))
    return large / small if small and large and len(sizes) > 1 else None


def read_speed(document: Mapping[str, Any], prefetch: int) -> Optional[float]:
    """MB/s from the disk, of the whole training."""
    found = measured(document, part=DISK, threads=THREADS, prefetch=prefetch)
    speeds = [sum(each["traces"]["read"]) / len(each["traces"]["read"]) for each in found]
    return statistics.median(speeds) if speeds else None


def targets(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Target, value, whether it is met."""
    text = f"C3 time lost to checkpoints, BurstBuffer beside the slow storage: 1/{TARGET}"
    share = over(document, BURST, SLOW, LOST)
    if share is None:
        return [(text, "", "not measured")]
    return [(text, f"{share:.2f}", "yes" if share <= 1 / TARGET else "no")]
