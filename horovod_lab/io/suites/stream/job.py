"""A job of the suite stream: one process on a testbed, and what the storage did for it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from horovod_lab.io.environment import ELSEWHERE
from horovod_lab.io.testbeds.rendezvous import Rendezvous
from horovod_lab.io.testbeds.steady_state import environ
from horovod_lab.io.testbeds.testbed import Testbed, WarmCache
from horovod_lab.measuring import launch

CONSUMER = "horovod_lab.io.suites.stream.consumer"


def run(testbed: Testbed, series: str, shapes: Sequence[dict[str, Any]], seconds: float,
        step_seconds: float, timeout: float) -> list[dict[str, Any]]:
    """Of each shape, a dict of pipelines.Shape, what the process found and the storage counted.

    The testbed's memory has no limit: nothing is read twice, and a batch of images is larger than
    the files of small data sets.

    Raises:
        launch.JobFailed: it failed or took too long; nothing of the job is left running.
    """
    with tempfile.TemporaryDirectory(prefix="horovod-io-bench-") as folder:
        command = [sys.executable, "-m", CONSUMER, "--series", series, "--rendezvous", folder,
                   "--data", str(testbed.folder), "--shapes", json.dumps(shapes),
                   "--parent", str(os.getpid()), "--seconds", str(seconds),
                   "--step-seconds", str(step_seconds),
                   *([] if isinstance(testbed, WarmCache) else ["--cold"])]
        results: list[dict[str, Any]] = []
        launch.execute([testbed.command(0, command)], environment(), timeout, ELSEWHERE,
                       _conduct(testbed, Rendezvous(Path(folder), None), shapes, results))
        return results


def environment() -> dict[str, str]:
    """Of processes that use TensorFlow: a GPU is not needed."""
    return {**environ(os.environ), "CUDA_VISIBLE_DEVICES": "-1"}


def _conduct(testbed: Testbed, rendezvous: Rendezvous, shapes: Sequence[dict[str, Any]],
             results: list[dict[str, Any]]) -> Iterator[None]:
    """Asks the storage before and after each shape."""
    for number, shape in enumerate(shapes):
        while not rendezvous.has(f"ready.{number}"):
            yield
        before = testbed.counters()
        rendezvous.publish(f"go.{number}", None)
        while not rendezvous.has(f"done.{number}"):
            yield
        counts = {name: value for name, value in asdict(testbed.counters().since(before)).items()
                  if value is not None}
        results.append({**shape, **rendezvous.wait_for(f"done.{number}"), **counts})
        rendezvous.publish(f"counted.{number}", None)
