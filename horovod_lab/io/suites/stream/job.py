"""A job of the suite stream: one process on a stand, and what the storage did for it."""

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
from horovod_lab.io.testbeds.meeting import Meeting
from horovod_lab.io.testbeds.stand import Stand
from horovod_lab.io.testbeds.steady import environ
from horovod_lab.io.testbeds.warm import Warm
from horovod_lab.measuring import launch

READER = "horovod_lab.io.jpegs.reader"


def run(stand: Stand, series: str, shapes: Sequence[dict[str, Any]], seconds: float,
        step_seconds: float, timeout: float) -> list[dict[str, Any]]:
    """Of each shape, a dict of pipelines.Shape, what the process found and the storage counted.

    The stand's memory has no limit: nothing is read twice, and a batch of images is larger than the
    files of small data sets.

    Raises:
        launch.JobFailed: it failed or took too long; nothing of the job is left running.
    """
    with tempfile.TemporaryDirectory(prefix="horovod-io-bench-") as folder:
        command = [sys.executable, "-m", READER, "--series", series, "--data", str(stand.folder),
                   "--meeting", folder, "--shapes", json.dumps(shapes),
                   "--parent", str(os.getpid()), "--seconds", str(seconds),
                   "--step-seconds", str(step_seconds),
                   *([] if isinstance(stand, Warm) else ["--cold"])]
        found: list[dict[str, Any]] = []
        launch.execute([stand.command(0, command)], environment(), timeout, ELSEWHERE,
                       _conducted(stand, Meeting(Path(folder), None), shapes, found))
        return found


def environment() -> dict[str, str]:
    """Of processes that use TensorFlow: a GPU is not needed."""
    return {**environ(os.environ), "CUDA_VISIBLE_DEVICES": "-1"}


def _conducted(stand: Stand, meeting: Meeting, shapes: Sequence[dict[str, Any]],
               found: list[dict[str, Any]]) -> Iterator[None]:
    """Asks the storage before and after each shape."""
    for number, shape in enumerate(shapes):
        while not meeting.told(f"ready.{number}"):
            yield
        before = stand.counters()
        meeting.tell(f"go.{number}", None)
        while not meeting.told(f"done.{number}"):
            yield
        counted = {name: value for name, value in asdict(stand.counters().since(before)).items()
                   if value is not None}
        found.append({**shape, **meeting.hear(f"done.{number}"), **counted})
        meeting.tell(f"counted.{number}", None)
