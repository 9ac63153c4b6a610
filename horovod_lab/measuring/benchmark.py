"""A benchmark that goes on where it was interrupted: runs every planned job that has no result yet,
and keeps each result at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from horovod_lab.measuring import documents, launch
from horovod_lab.measuring.launch import end_as_by_ctrl_c
from horovod_lab.measuring.present import Section, show
from horovod_opt.arguments import INTERRUPTED, Refusal

NAME = "horovod-opt bench"


class Job(Protocol):
    """`str()` of it is shown while it runs."""

    def key(self) -> dict[str, Any]:
        """What tells it from the other jobs, as in the JSON file."""


def is_of(job: Job, measurement: dict[str, Any]) -> bool:
    """Whether the measurement is this job's."""
    key = job.key()
    return {name: measurement.get(name) for name in key} == key


def begin(path: Path, kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The document with what was measured before, or a new one.

    Raises:
        Refusal: the folder cannot be made, or holds measurements with other settings.
        DocumentError: the file is there, but cannot be read.
    """
    document = documents.new(kind, ["horovod-opt"])
    document |= {"settings": settings, "measurements": []}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(f"--output: {path.parent} cannot be made: {error.strerror}") from error
    if not path.exists():
        return document
    earlier = documents.load(path, kind)
    now = {**settings, "versions": document["machine"]["versions"]}
    # The suite overhead kept no settings before it could go on.
    then = {**earlier.get("settings", {}), "versions": earlier["machine"]["versions"]}
    different = [name for name in now if now[name] != then.get(name)]
    if different:
        raise Refusal(f"{path} was measured with other {', '.join(different)}; remedy: another "
                      "--output, or the same settings")
    return {**earlier, "command": document["command"]}


class Benchmark:
    """Runs those of the planned jobs that the document has no result of yet.

    A suite says in a subclass how a job is measured and what is shown of it; `name` is the
    command's."""

    name = NAME

    def __init__(self, jobs: Sequence[Job], document: dict[str, Any], path: Path,
                 section: Callable[[dict[str, Any]], Section]):
        self.path = path
        self.document = document
        self.section = section
        self.console = Console(stderr=True)
        results = [measurement for measurement in document["measurements"]
                   if "failed" not in measurement]
        self.jobs = [job for job in jobs if not any(is_of(job, result) for result in results)]
        self.jobs_before = len(jobs) - len(self.jobs)

    def measure(self, job: Any) -> dict[str, Any]:
        """What the JSON holds of the job beside its key. Raises launch.JobFailed."""
        raise NotImplementedError

    def outcome(self, measurement: dict[str, Any]) -> str:
        """The measurement in a few words."""
        raise NotImplementedError

    def summary(self) -> dict[str, Any]:
        """What the file says beside the measurements, anew after each."""
        return {}

    def prepare(self) -> None:
        """Before the first job. Raises launch.JobFailed if none can be run."""

    def run(self) -> int:
        """The exit status."""
        try:
            with end_as_by_ctrl_c():
                status = self._measure_all()
        except KeyboardInterrupt:
            self.console.print("Interrupted. The same command goes on from here.")
            status = INTERRUPTED
        if self.document["measurements"]:
            self._say(f"Written: {self.path}")
            show(self.section(self.document), self.path.parent)
        return status

    def _measure_all(self) -> int:
        if self.jobs_before:
            self._say(f"Measured before, and kept: {self.jobs_before} of "
                      f"{self.jobs_before + len(self.jobs)} jobs.")
        try:
            self.prepare()
        except launch.JobFailed as failure:
            self._say(f"{self.name}: {failure}")
            return 2
        failed = 0
        with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                      TimeRemainingColumn(), console=self.console,
                      disable=not self.console.is_terminal) as progress:
            task = progress.add_task("", total=len(self.jobs))
            for job in self.jobs:
                progress.update(task, description=str(job))
                measurement = self._measure_job(job)
                failed += "failed" in measurement
                self._say(f"{job}: " + (
                    f"failed: {measurement['failed']}" if "failed" in measurement
                    else self.outcome(measurement)))
                progress.advance(task)
        if failed:
            self._say(f"{self.name}: {failed} of {len(self.jobs)} jobs failed; the others are "
                      "kept, and the same command tries them again")
        return 2 if failed else 0

    def _measure_job(self, job: Job) -> dict[str, Any]:
        start = time.monotonic()
        try:
            result = self.measure(job)
        except launch.JobFailed as failure:
            result = {"failed": str(failure)}
        measurement = {**job.key(), **result, "job_seconds": round(time.monotonic() - start, 1)}
        others = [earlier for earlier in self.document["measurements"] if not is_of(job, earlier)]
        self.document["measurements"] = [*others, measurement]
        self.document |= self.summary()
        documents.save(self.path, self.document)
        return measurement

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
