"""The suite stream: the TensorFlow micro-benchmark of measuring/literature.py's source."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horovod_lab.io.data import jpegs
from horovod_lab.io.environment import ELSEWHERE
from horovod_lab.io.suites.stream import job
from horovod_lab.io.suites.stream.pictures import name_of, section
from horovod_lab.io.suites.stream.results import (
    LABELS,
    PREPROCESSING,
    SPEED,
    WARM_UP,
    WITH,
    summary,
)
from horovod_lab.io.suites.suite_benchmark import NAME, TESTBEDS, SuiteBenchmark, try_testbed
from horovod_lab.measuring import launch
from horovod_lab.measuring.benchmark import begin
from horovod_lab.measuring.comparison import interleave
from horovod_lab.measuring.documents import DocumentError
from horovod_lab.measuring.present import Section, number
from horovod_opt.arguments import Refusal

MOST_THREADS = 256  # that hio.open takes
NEEDS = {"tensorflow": "horovod-opt[tensorflow]", "sklearn": "scikit-learn"}


@dataclass(frozen=True)
class Job:
    """A pipeline in a round, with every number of threads."""

    round: int
    series: str

    def key(self) -> dict[str, Any]:
        return {"round": self.round, "series": self.series}

    def __str__(self) -> str:
        return f"round {self.round + 1}  {LABELS[self.series]}"

    def rotate(self, shapes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """What it measures, one after the other: each round begins with the next one."""
        first = self.round % len(shapes)
        return [*shapes[first:], *shapes[:first]]


def order(names: Sequence[str], rounds: int) -> list[Job]:
    return [Job(*job) for job in interleave(names, rounds)]


def run(options: argparse.Namespace) -> int:
    path = options.json or options.output / f"{name_of(options.stand, options.step_seconds)}.json"
    try:
        _check(options)
        document = begin(path, "io-stream", {
            "stand": options.stand, "speed": dict(TESTBEDS[options.stand].speed),
            "files": options.files, "file_bytes": options.file_bytes, "pixels": options.pixels,
            "preprocessing": options.preprocessing,
            "threads": options.threads, "batch": options.batch, "prefetch": options.prefetch,
            "seconds": options.seconds, "step_seconds": options.step_seconds})
        try_testbed(options)
    except (Refusal, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    return StreamBenchmark(order(options.only, options.rounds), document, path, options).run()


def _check(options: argparse.Namespace) -> None:
    """Raises Refusal for what cannot be measured. Nothing is measured twice."""
    for name in "threads", "batch", "prefetch":
        setattr(options, name, sorted({*getattr(options, name)}))
    options.preprocessing = [kind for kind in PREPROCESSING if kind in options.preprocessing]
    if options.ranks != [1]:
        raise Refusal(f"--ranks {' '.join(map(str, options.ranks))}: suite stream is one process; "
                      "remedy: leave --ranks out")
    if options.nodes != 1:
        raise Refusal(f"--nodes {options.nodes}: suite stream is of one node; remedy: leave "
                      "--nodes out")
    if options.rounds <= WARM_UP:
        raise Refusal(f"--rounds {options.rounds}: the first round is dropped; remedy: at least "
                      f"{WARM_UP + 1}")
    if max(options.threads) > MOST_THREADS:
        raise Refusal(f"--threads {max(options.threads)}; remedy: at most {MOST_THREADS}")
    if options.files < max(options.batch):
        raise Refusal(f"--files {options.files} is less than a batch of {max(options.batch)}; "
                      f"remedy: at least {max(options.batch)}")
    if not jpegs.LEAST <= options.file_bytes <= jpegs.MOST:
        raise Refusal(f"--file-bytes {options.file_bytes}; remedy: from {jpegs.LEAST} to "
                      f"{jpegs.MOST}")
    for module, distribution in NEEDS.items():
        if importlib.util.find_spec(module) is None:
            raise Refusal(f"--suite stream needs {module}, which {sys.executable} does not have; "
                          f"remedy: pip install '{distribution}'")
    TESTBEDS[options.stand].check(options.nodes)


class StreamBenchmark(SuiteBenchmark):
    """Of processes that read JPEGs."""

    def __init__(self, jobs: Sequence[Any], document: dict[str, Any], path: Path,
                 options: argparse.Namespace, show: Callable[..., Section] = section):
        super().__init__(jobs, document, path, options, show)
        self._folder = jpegs.folder_of(self._data, options.files, options.file_bytes)

    def prepare(self) -> None:
        """Writes the data that is not there."""
        options = self._options
        if self._folder.exists():
            return
        self._say(f"Writing {options.files} JPEGs of {options.file_bytes} bytes: {self._folder}")
        process = subprocess.run(
            [sys.executable, "-m", jpegs.__name__, str(self._folder), str(options.files),
             str(options.file_bytes)], cwd=ELSEWHERE, stdin=subprocess.DEVNULL,
            env=job.environment())
        if process.returncode:
            raise launch.JobFailed(f"{self._folder} could not be written (see above)")

    def measure(self, stream_job: Job) -> dict[str, Any]:
        options = self._options
        shapes = stream_job.rotate([
            {"threads": threads, "batch": batch, "prefetch": prefetch,
             "pixels": options.pixels if preprocessing == WITH else None}
            for preprocessing in options.preprocessing for batch in options.batch
            for prefetch in options.prefetch for threads in options.threads])
        try:
            with TESTBEDS[options.stand](self._folder, options.nodes) as testbed:
                return {"runs": job.run(testbed, stream_job.series, shapes, options.seconds,
                                        options.step_seconds, options.timeout)}
        except OSError as error:
            raise launch.JobFailed(f"the stand cannot be made, or failed: {error}") from error

    def outcome(self, measurement: dict[str, Any]) -> str:
        speeds = [run[SPEED] for run in measurement["runs"]]
        return f"{number(min(speeds))} to {number(max(speeds))} images/s"

    def summary(self) -> dict[str, Any]:
        return {"targets": summary(self.document)}
