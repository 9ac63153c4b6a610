"""Jobs that are not run, what they would have printed, and the modules of their programs."""

from __future__ import annotations

import importlib
import json
import sys

import pytest

from horovod_lab.bench import worker_job
from horovod_lab.bench.worker_job import WORKERS
from horovod_lab.measuring import launch


def result(images: float = 20.0, **metrics: object) -> str:
    return json.dumps({
        "workload": "train", "metrics": {"images_per_second": images, "step_seconds": 8 / images,
                                         "steps": 30, **metrics},
        "mpi": "Open MPI", "per_rank": {
            "counters": [None, None], "memory_mib": [500.0, 600.0],
            "parts": [{"computation": 0.3, "waiting": 0.0, "negotiation": 0.1, "data": 0.2},
                      {"computation": 0.2, "waiting": 0.1, "negotiation": 0.1, "data": 0.2}]}})


class Executed(list):
    """Commands that were to be executed; `answer` is what they print, or raise."""

    answer: str | BaseException = result()
    result = staticmethod(result)


@pytest.fixture
def executed(monkeypatch) -> Executed:
    commands_seen = Executed()

    def execute(commands, environ, timeout):
        commands_seen.append(commands)
        if isinstance(commands_seen.answer, BaseException):
            raise commands_seen.answer
        return commands_seen.answer

    monkeypatch.setattr(launch, "execute", execute)
    return commands_seen


class Answers(list):
    """What the jobs return or raise, in their order; `runs` has what was to be run: series,
    program, ranks and timeout."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[tuple] = []


@pytest.fixture
def answers(monkeypatch) -> Answers:
    answers = Answers()

    def run(*job):
        answers.runs.append(job)
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(worker_job, "run", run)
    return answers


@pytest.fixture
def worker(monkeypatch):
    """Imports a module as a rank does, whose folder is the first of its path."""
    monkeypatch.syspath_prepend(str(WORKERS))
    modules = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - modules:
        if str(WORKERS) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]
