"""Records each saver on the storage that crashes, and reads all that its crashes leave."""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horovod_lab.io import environment
from horovod_lab.io.crashes import operations
from horovod_lab.io.crashes.states import Crashes
from horovod_lab.io.crashes.story import tell
from horovod_lab.io.savers import (
    FAST_SPEED,
    MEMORY,
    NEW,
    OLD,
    SAVERS,
    SLOW_SPEED,
    TIMED,
    TRAINING_SECONDS,
    VERSION_BYTES,
    VERSIONS,
)
from horovod_lab.io.savers.loading import Loader
from horovod_lab.io.suites.savers.pictures import section
from horovod_lab.io.suites.savers.results import (
    Found,
    count,
    examples,
    kill_losses,
    losses,
)
from horovod_lab.io.suites.suite_benchmark import NAME
from horovod_lab.io.testbeds.crashing_storage import CrashingStorage
from horovod_lab.io.testbeds.testbed import NoTestbed
from horovod_lab.measuring import launch
from horovod_lab.measuring.benchmark import Benchmark, begin
from horovod_lab.measuring.documents import DocumentError
from horovod_opt.arguments import Refusal

MODULE, TIERS = "horovod_lab.io.savers.job", "horovod_lab.io.savers.tiers"
REMEDY = "make savers"
PATH = ":".join(("/usr/local/bin", "/usr/bin", "/bin"))


@dataclass(frozen=True)
class Job:
    saver: str

    def key(self) -> dict[str, Any]:
        return {"saver": self.saver}

    def __str__(self) -> str:
        return TIMED[self.saver] if self.saver in TIMED else SAVERS[self.saver].label


def run(options: argparse.Namespace) -> int:
    path = options.json or options.output / "io-savers.json"
    try:
        python = environment.find(options.savers, REMEDY)
        CrashingStorage.check()
        document = begin(path, "io-savers", {"drawn": options.drawn})
    except (Refusal, DocumentError, NoTestbed) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    return SaversBenchmark([Job(name) for name in options.only], document, path, options,
                           python).run()


class SaversBenchmark(Benchmark):
    name = NAME

    def __init__(self, jobs: list[Job], document: dict[str, Any], path: Path,
                 options: argparse.Namespace, python: environment.Environment):
        super().__init__(jobs, document, path,
                         functools.partial(section, targets=options.targets))
        self._python, self._drawn, self._timeout = python, options.drawn, options.timeout
        self._environ = {"PATH": PATH, "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8",
                         "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3",
                         "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
        if python.python == sys.executable:  # the sources that run here, installed or not
            self._environ["PYTHONPATH"] = str(Path(__file__).parents[4])

    def measure(self, job: Job) -> dict[str, Any]:
        if job.saver in TIMED:
            return self._time(job.saver)
        saver = SAVERS[job.saver]
        absence = self._python.explain_absence(saver.distributions)
        if absence:
            raise launch.JobFailed(absence)
        with tempfile.TemporaryDirectory() as folder:
            recorded = self._record(job, Path(folder))
            marks = [operation[1] for operation in recorded if operation[0] == operations.MARKED]
            if not {OLD, NEW} <= set(marks):
                raise launch.JobFailed(f"it has come to {', '.join(marks) or 'no mark'}")
            empty = Path(folder, "empty")
            empty.mkdir()
            found = self._look(job, Crashes(empty, recorded, OLD, self._drawn))
        killed = [each for each in found if not each.state.lost]
        return {
            "versions": {name: self._python.versions[name] for name in saver.distributions},
            "operations": len(recorded), "states": count(found), "killed": count(killed),
            "losses": [{"phase": each.phase, "outcome": each.outcome, "error": each.error,
                        "lost": len(each.state.lost), "of": len(each.state.pending),
                        "calls": tell(recorded, OLD, each.state)} for each in examples(found)]}

    def _record(self, job: Job, folder: Path) -> list[operations.Operation]:
        (folder / "storage").mkdir()
        try:
            with CrashingStorage(folder / "storage") as storage:
                storage.record(folder / "recorded")
                command = [self._python.python, "-m", MODULE, "save", job.saver,
                           str(folder / "storage")]
                launch.execute([storage.command(0, command)], self._environ, self._timeout, "/")
        except (OSError, subprocess.SubprocessError) as error:
            raise launch.JobFailed(str(error)) from error
        return list(operations.read(folder / "recorded"))

    def _look(self, job: Job, crashes: Crashes) -> list[Found]:
        """States that are the same are read once; in each phase they count once."""
        outcomes: dict[bytes, tuple[str, str]] = {}
        found: dict[tuple[bytes, str], Found] = {}
        command = [self._python.python, "-m", MODULE, "load", job.saver]
        with Loader(command, self._environ) as loader:
            for state in crashes.states():
                digest = state.digest
                if digest not in outcomes:
                    outcomes[digest] = loader.load(state.contents)
                now = Found(state, *outcomes[digest])
                key = digest, now.phase
                if key not in found or len(state.lost) < len(found[key].state.lost):
                    found[key] = now
        return list(found.values())

    def _time(self, way: str) -> dict[str, Any]:
        absence = self._python.explain_absence(("torch",))
        if absence:
            raise launch.JobFailed(absence)
        with ExitStack() as stack:
            try:
                fast, slow = (self._tier(stack, speed) for speed in (FAST_SPEED, SLOW_SPEED))
            except OSError as error:
                raise launch.JobFailed(str(error)) from error
            if way == MEMORY:
                fast = stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
            output = launch.execute([[self._python.python, "-m", TIERS, way, str(fast), str(slow),
                                      str(VERSION_BYTES), str(VERSIONS), str(TRAINING_SECONDS)]],
                                    self._environ, self._timeout, "/")
        return {"versions": {"torch": self._python.versions["torch"]},
                **json.loads(output.splitlines()[-1])}

    @staticmethod
    def _tier(stack: ExitStack, speed: float) -> Path:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return stack.enter_context(CrashingStorage(
            folder, is_paced=True, bandwidth=speed, keeps_cache=True)).path()

    def outcome(self, measurement: dict[str, Any]) -> str:
        if measurement["saver"] in TIMED:
            return f"{measurement['lost_seconds']:.1f} s lost"
        states = sum(sum(counts.values()) for counts in measurement["states"].values())
        return (f"{losses(measurement)} of {states} states are losses, "
                f"{kill_losses(measurement)} of them after a kill")
