"""The suite stream: the TensorFlow micro-benchmark of measuring/literature.py's source."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

from horovod_lab.io.environment import ELSEWHERE
from horovod_lab.io.jpegs import files, job
from horovod_lab.io.suites.conditions import try_stand
from horovod_lab.io.suites.stream.jobs import PREPROCESSING, WITH, Job, order
from horovod_lab.io.suites.stream.pictures import name_of, section
from horovod_lab.io.suites.stream.results import SPEED, WARM_UP, summary
from horovod_lab.io.suites.suite_benchmark import NAME, SuiteBenchmark
from horovod_lab.io.testbeds.by_name import STANDS
from horovod_lab.measuring import launch
from horovod_lab.measuring.benchmark import begin
from horovod_lab.measuring.documents import DocumentError
from horovod_lab.measuring.present import number
from horovod_opt.arguments import Refused

MOST_THREADS = 256  # that hio.open takes
NEEDS = {"tensorflow": "horovod-opt[tensorflow]", "sklearn": "scikit-learn"}


def run(options: argparse.Namespace) -> int:
    path = options.json or options.output / f"{name_of(options.stand, options.step_seconds)}.json"
    try:
        _check(options)
        document = begin(path, "io-stream", {
            "stand": options.stand, "speed": dict(STANDS[options.stand].speed),
            "files": options.files, "file_bytes": options.file_bytes, "pixels": options.pixels,
            "preprocessing": options.preprocessing,
            "threads": options.threads, "batch": options.batch, "prefetch": options.prefetch,
            "seconds": options.seconds, "step_seconds": options.step_seconds})
        try_stand(options)
    except (Refused, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    return StreamBenchmark(order(options.only, options.rounds), document, path, options).run()


def _check(options: argparse.Namespace) -> None:
    """Raises Refused for what cannot be measured. Nothing is measured twice."""
    for name in "threads", "batch", "prefetch":
        setattr(options, name, sorted({*getattr(options, name)}))
    options.preprocessing = [one for one in PREPROCESSING if one in options.preprocessing]
    if options.ranks != [1]:
        raise Refused(f"--ranks {' '.join(map(str, options.ranks))}: suite stream is one process; "
                      "remedy: leave --ranks out")
    if options.nodes != 1:
        raise Refused(f"--nodes {options.nodes}: suite stream is of one node; remedy: leave "
                      "--nodes out")
    if options.rounds <= WARM_UP:
        raise Refused(f"--rounds {options.rounds}: the first round is dropped; remedy: at least "
                      f"{WARM_UP + 1}")
    if max(options.threads) > MOST_THREADS:
        raise Refused(f"--threads {max(options.threads)}; remedy: at most {MOST_THREADS}")
    if options.files < max(options.batch):
        raise Refused(f"--files {options.files} is less than a batch of {max(options.batch)}; "
                      f"remedy: at least {max(options.batch)}")
    if not files.LEAST <= options.file_bytes <= files.MOST:
        raise Refused(f"--file-bytes {options.file_bytes}; remedy: from {files.LEAST} to "
                      f"{files.MOST}")
    for module, distribution in NEEDS.items():
        if importlib.util.find_spec(module) is None:
            raise Refused(f"--suite stream needs {module}, which {sys.executable} does not have; "
                          f"remedy: pip install '{distribution}'")
    STANDS[options.stand].check(options.nodes)


class StreamBenchmark(SuiteBenchmark):
    def __init__(self, planned: list[Job], document: dict[str, Any], path: Path,
                 options: argparse.Namespace):
        super().__init__(planned, document, path, options, section)
        self._folder = files.folder_of(self._data, options.files, options.file_bytes)

    def prepare(self) -> None:
        """Writes the data that is not there."""
        options = self._options
        if self._folder.exists():
            return
        self._say(f"Writing {options.files} JPEGs of {options.file_bytes} bytes: {self._folder}")
        ended = subprocess.run(
            [sys.executable, "-m", files.__name__, str(self._folder), str(options.files),
             str(options.file_bytes)], cwd=ELSEWHERE, stdin=subprocess.DEVNULL,
            env=job.environment())
        if ended.returncode:
            raise launch.JobFailed(f"{self._folder} could not be written (see above)")

    def measure(self, planned: Job) -> dict[str, Any]:
        options = self._options
        shapes = planned.turned([
            {"threads": threads, "batch": batch, "prefetch": prefetch,
             "pixels": options.pixels if preprocessing == WITH else None}
            for preprocessing in options.preprocessing for batch in options.batch
            for prefetch in options.prefetch for threads in options.threads])
        try:
            with STANDS[options.stand](self._folder, options.nodes) as stand:
                return {"runs": job.run(stand, planned.series, shapes, options.seconds,
                                        options.step_seconds, options.timeout)}
        except OSError as error:
            raise launch.JobFailed(f"the stand cannot be made, or failed: {error}") from error

    def outcome(self, measurement: dict[str, Any]) -> str:
        speeds = [run[SPEED] for run in measurement["runs"]]
        return f"{number(min(speeds))} to {number(max(speeds))} images/s"

    def summary(self) -> dict[str, Any]:
        return {"targets": summary(self.document)}
