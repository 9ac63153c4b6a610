"""The suite alexnet: the TensorFlow mini-application of measuring/literature.py's source."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from dataclasses import asdict, dataclass
from typing import Any

from horovod_lab.io.data import jpegs
from horovod_lab.io.suites.alexnet import job
from horovod_lab.io.suites.alexnet.pictures import section
from horovod_lab.io.suites.alexnet.results import (
    BATCH,
    BATCHES,
    CHECKPOINTS,
    DISK,
    INPUT,
    MEMORY,
    NONE,
    PARTS,
    PREFETCH,
    SECONDS,
    SPEEDS,
    THREADS,
    WAYS,
)
from horovod_lab.io.suites.stream.suite import NEEDS, StreamBenchmark
from horovod_lab.io.suites.suite_benchmark import NAME
from horovod_lab.io.testbeds.crashing_storage import CrashingStorage
from horovod_lab.io.testbeds.disk import Disk
from horovod_lab.io.testbeds.testbed import WarmCache
from horovod_lab.measuring import launch
from horovod_lab.measuring.benchmark import begin
from horovod_lab.measuring.documents import DocumentError
from horovod_opt.arguments import Refusal


@dataclass(frozen=True)
class Job:
    round: int
    part: str
    threads: int = THREADS
    batch: int = BATCH
    prefetch: int = PREFETCH

    def key(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        text = f"round {self.round + 1}  {PARTS[self.part]}"
        return text if self.part in WAYS else (
            f"{text}, {self.threads} threads, batch {self.batch}, prefetch {self.prefetch}")


def plan(options: argparse.Namespace) -> list[Job]:
    """Those that differ in one thing follow each other in a round."""
    jobs = []
    for number in range(options.rounds):
        for part in (DISK, MEMORY):
            jobs += [Job(number, part, threads, BATCH, prefetch) for threads in options.threads
                     for prefetch in options.prefetch]
        jobs += [Job(number, BATCHES, THREADS, batch, prefetch) for batch in options.batch
                 if batch != BATCH or THREADS not in options.threads for prefetch in
                 options.prefetch]
        jobs += [Job(number, way) for way in WAYS]
    return [each for each in jobs if each.part in options.only]


def run(options: argparse.Namespace) -> int:
    path = options.json or options.output / "io-alexnet.json"
    try:
        _check(options)
        document = begin(path, "io-alexnet", {
            "files": options.files, "file_bytes": options.file_bytes, "pixels": options.pixels,
            "threads": options.threads, "batch": options.batch, "prefetch": options.prefetch,
            "steps": options.steps, "width": options.width,
            "speeds": SPEEDS, "disk": dict(Disk.speed)})
    except (Refusal, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    return AlexNetBenchmark(plan(options), document, path, options, section).run()


def _check(options: argparse.Namespace) -> None:
    """Raises Refusal for what cannot be measured. Nothing is measured twice."""
    for name in "threads", "batch", "prefetch":
        setattr(options, name, sorted({*getattr(options, name)}))
    for module, distribution in NEEDS.items():
        if importlib.util.find_spec(module) is None:
            raise Refusal(f"--suite alexnet needs {module}, which {sys.executable} does not have; "
                          f"remedy: pip install '{distribution}'")
    most = max(BATCH, *options.batch)
    if options.files < most:
        raise Refusal(f"--files {options.files} is less than a batch of {most}; remedy: at least "
                      f"{most}")
    if not jpegs.LEAST <= options.file_bytes <= jpegs.MOST:
        raise Refusal(f"--file-bytes {options.file_bytes}; remedy: from {jpegs.LEAST} to "
                      f"{jpegs.MOST}")
    if options.steps < CHECKPOINTS:
        raise Refusal(f"--steps {options.steps} is less than a step for each of {CHECKPOINTS} "
                      f"checkpoints; remedy: at least {CHECKPOINTS}")
    if {DISK, BATCHES} & {*options.only}:
        Disk.check(1)
    if {*WAYS} - {NONE} & {*options.only}:
        CrashingStorage.check()


class AlexNetBenchmark(StreamBenchmark):
    def measure(self, training: Job) -> dict[str, Any]:
        settings = self.document["settings"]
        is_input = training.part in INPUT
        options = {"threads": training.threads, "batch": training.batch,
                   "prefetch": training.prefetch, "pixels": settings["pixels"],
                   "width": settings["width"],
                   "steps": settings["files"] // training.batch if is_input else settings["steps"],
                   "every": 0 if is_input or training.part == NONE
                   else settings["steps"] // CHECKPOINTS}
        stand = WarmCache if training.part in (MEMORY, *WAYS) else Disk
        try:
            with stand(self._folder, 1) as testbed:
                return job.run(testbed, options, training.part, self._options.timeout)
        except OSError as error:
            raise launch.JobFailed(f"the stand cannot be made, or failed: {error}") from error

    def outcome(self, measurement: dict[str, Any]) -> str:
        saved = measurement["saved_seconds"]
        return (f"{measurement[SECONDS]:.1f} s, of which {measurement['waited_seconds']:.1f} for "
                "batches" + (f", {sum(saved):.1f} for checkpoints" if saved else ""))

    def summary(self) -> dict[str, Any]:
        return {}
