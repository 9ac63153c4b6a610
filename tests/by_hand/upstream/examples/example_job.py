"""Runs one script as a job, and ends it when it has trained long enough."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from example_scripts import Example
from launch import HOROVODRUN, MARKER, Column, kill_marked
from rates import Line

HERE = Path(__file__).resolve().parent
ENDED, STOPPED, FAILED = "ended", "stopped", "failed"
PATIENCE = 300  # seconds, many times what it takes until a script tells how fast it is
_OF_RANK = re.compile(r"^\[(?:\d+,)?(\d+)\]<std(?:out|err)>:? ?")
_ERROR = re.compile(r"^[\w.]*(?:Error|Exception)\b.*")


@dataclass(frozen=True)
class TrainingRun:
    """`status` is one of ENDED, STOPPED, FAILED; `rate` is in the example's unit, where told."""

    status: str
    rate: float | None = None
    seconds: float = 0.0
    why: str = ""

    def as_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping) -> TrainingRun:
        return cls(**document)


def of_rank_0(lines: Sequence[Line]) -> list[Line]:
    """Without the launcher's prefix. Lines without one are the launcher's own."""
    matches = [(when, _OF_RANK.match(text), text) for when, text in lines]
    return [(when, text[match.end():]) for when, match, text in matches
            if match and match[1] == "0"]


def why_failed(lines: Sequence[Line]) -> str:
    """The last error of Python's on any rank, else of the launcher, else the last line."""
    texts = [_OF_RANK.sub("", text).strip() for _, text in lines]
    of_ranks = [text for text, (_, line) in zip(texts, lines) if _OF_RANK.match(line)]
    errors = (list(filter(_ERROR.match, of_ranks)) or list(filter(_ERROR.match, texts))
              or list(filter(None, texts)))
    return errors[-1] if errors else "it printed nothing"


def command(example: Example, column: Column, root: Path, data: Path, work: Path) -> list[str]:
    start = [column.python, str(HOROVODRUN), "-np", str(column.ranks)]
    if example.elastic:
        hosts = work / "hosts.sh"
        hosts.write_text(f"#!/bin/sh\necho localhost:{column.ranks}\n")
        hosts.chmod(0o755)
        # Without the interface, horovodrun waits for a second host.
        start += ["--gloo", "--min-np", str(column.ranks), "--network-interfaces", "lo",
                  "--host-discovery-script", str(hosts)]
    script = [str(HERE / "main_script.py"), example.preparation] if example.preparation else []
    script += [str(root / example.script),
               *(text.format(data=data, work=work) for text in example.arguments)]
    return [*start, column.python, *script]


class _Process:
    """A process whose lines are kept with their time, also in a file."""

    def __init__(self, command: list[str], folder: Path, name: str, environ: Mapping) -> None:
        self.lines: list[Line] = []
        self._process = subprocess.Popen(
            command, cwd=folder / "work", env=dict(environ), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self._reader = threading.Thread(target=self._read, args=(folder / f"{name}.txt",))
        self._reader.start()

    def _read(self, file: Path) -> None:
        # A launcher names the rank at the beginning of a line, and not behind the carriage returns
        # of a progress bar.
        lines = io.TextIOWrapper(self._process.stdout, errors="replace", newline="\n")
        with file.open("w", newline="") as output:
            for text in lines:
                self.lines.append((time.monotonic(), text.rstrip("\n")))
                output.write(text)

    def status(self) -> int | None:
        return self._process.poll()

    def wait(self) -> None:
        self._process.wait()
        self._reader.join()


def run(example: Example, column: Column, root: Path, data: Path, folder: Path,
        seconds: float) -> TrainingRun:
    """Lets the script below `root` train for `seconds`, longer if it has not told its rate by then.

    `folder` is emptied, and keeps what the job printed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "work").mkdir(parents=True)
    marker = uuid.uuid4().hex
    environ = {**column.environ(), **example.environment, MARKER: marker, "PYTHONUNBUFFERED": "1"}
    begun = time.monotonic()
    running = []
    try:
        if example.service:
            service = [column.python, str(HOROVODRUN), "-np", str(column.ranks), column.python]
            service += [text.format(work=folder / "work") for text in example.service]
            running.append(_Process(service, folder, "service", environ))
        job = _Process(command(example, column, root, data, folder / "work"), folder, "job",
                       environ)
        running.append(job)
        while job.status() is None:
            time.sleep(0.5)
            after = time.monotonic() - begun
            if after > PATIENCE or (after > seconds and _rate(example, job) is not None):
                break
        status = job.status()
    finally:
        kill_marked(marker)
        for process in running:
            process.wait()
    return _outcome(example, job, status, round(time.monotonic() - begun, 1))


def _rate(example: Example, job: _Process) -> float | None:
    return example.rate.of(of_rank_0(job.lines)) if example.rate else None


def _outcome(example: Example, job: _Process, status: int | None, seconds: float) -> TrainingRun:
    rate = _rate(example, job)
    if status:
        return TrainingRun(FAILED, None, seconds, why_failed(job.lines))
    if status == 0 and example.rate and rate is None:
        return TrainingRun(FAILED, None, seconds, "it did not say how fast it was")
    if status is None and rate is None:
        return TrainingRun(FAILED, None, seconds, f"no end after {PATIENCE} s")
    return TrainingRun(ENDED if status == 0 else STOPPED, rate, seconds)
