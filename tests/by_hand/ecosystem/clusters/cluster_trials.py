"""What is tried in each way: trainings that end well, and jobs that a rank or the user ends."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from launch_methods import ROOT, SLURM_NODES, Job, Place, Start, wait
from own_machine import SHARED

PROGRAMS = {"TensorFlow": "tensorflow2_digits.py", "PyTorch": "pytorch_digits.py"}
# All reductions of this program are in graphs; that of PyTorch has metrics without names, two an
# epoch, which are negotiated in any number of rounds.
NEVER_NEGOTIATES = "TensorFlow"
WARM_UP = 10  # steps that may be negotiated, of 440
LOSES_A_NODE = "a node is drained"
ELASTIC_PROGRAM = ROOT / "examples" / "pytorch_photographs_elastic.py"
ENDLESS = Path(__file__).parent / "endless_training.py"
# Only a hang takes that long.
HANG_SECONDS = 200
LINGER_SECONDS = 15  # from the end of a job to that of its processes


@dataclass(frozen=True)
class Result:
    """What a job did; `wrong` says what it should not have done, if anything."""

    text: str
    wrong: str = ""


def trains(place: Place, start: Start, folder: Path, framework: str, mode: str) -> Result:
    """The digits example: all ranks take part and end with the same weights, the table comes, and
    in topo no step is negotiated in steady state."""
    counters = folder / "counters.json"
    before = _inventory()
    begun = time.monotonic()
    job = start(place, folder, ("python", ROOT / "examples" / PROGRAMS[framework]), {
        "HOROVOD_OPT_MODE": mode, "HOROVOD_OPT_STATS": "1",
        "HOROVOD_OPT_STATS_JSON": str(counters)})
    if not wait(job.has_ended, HANG_SECONDS):
        job.cancel()
        return _wrong(job, f"has not ended after {HANG_SECONDS} s")
    seconds = time.monotonic() - begun
    output = job.output()
    if not job.has_succeeded():
        return _wrong(job, f"ended with {job.how()}")
    for expected in (f"ranks: {place.ranks} ", "identical weights: yes",
                     f"mode {mode}, {place.ranks} ranks"):
        if expected not in output:
            return _wrong(job, f"did not print {expected!r}")
    ranks = json.loads(counters.read_text())
    if [rank["rank"] for rank in ranks] != list(range(place.ranks)):
        return _wrong(job, f"has counters of {len(ranks)} ranks")
    if any(rank["data_bytes"] == 0 for rank in ranks):
        return _wrong(job, "has a rank that moved no data")
    text = f"{job.how()}, {seconds:.0f} s"
    if mode == "topo":
        rounds = max(rank["steady_rounds"] for rank in ranks)
        negotiated = max(rank["steps"] - rank["planned_iterations"] for rank in ranks)
        text += f", {negotiated} steps negotiated, {rounds} rounds in steady state"
        if negotiated > WARM_UP or (rounds and framework == NEVER_NEGOTIATES):
            return _wrong(job, text)
    return _check_leftovers(before, text)


def fails(place: Place, start: Start, folder: Path, how: str, mode: str) -> Result:
    """A job whose last rank exits with 7 or is killed: the others end, and the job has failed."""
    before = _inventory()
    job = _endless(place, start, folder, how, mode)
    if not wait((folder / "fault").exists, HANG_SECONDS):
        job.cancel()
        return _wrong(job, "has not come to the fault")
    begun = time.monotonic()
    if not wait(job.has_ended, HANG_SECONDS):
        job.cancel()
        return _wrong(job, f"has not ended {HANG_SECONDS} s after the fault")
    text = f"{job.how()}, {time.monotonic() - begun:.1f} s after it"
    return _wrong(job, text) if job.has_succeeded() else _check_leftovers(before, text)


def is_cancelled(place: Place, start: Start, folder: Path, mode: str) -> Result:
    """A job that its user ends, by scancel or by SIGTERM to its command."""
    before = _inventory()
    job = _endless(place, start, folder, "goes on", mode)
    marks = [folder / f"trains-{rank}" for rank in range(place.ranks)]
    if not wait(lambda: all(mark.exists() for mark in marks), HANG_SECONDS):
        job.cancel()
        return _wrong(job, f"does not train on {place.ranks} ranks")
    begun = time.monotonic()
    job.cancel()
    if not wait(job.has_ended, HANG_SECONDS):
        return _wrong(job, f"has not ended {HANG_SECONDS} s after it was cancelled")
    text = f"{job.how()}, {time.monotonic() - begun:.1f} s after it"
    return _wrong(job, text) if job.has_succeeded() else _check_leftovers(before, text)


def loses_a_node(place: Place, start: Start, folder: Path, mode: str) -> Result:
    """An elastic job: while a node is drained, the ranks of the others go on without it."""
    before = _inventory()
    job = start(place, folder, ("python", ELASTIC_PROGRAM, "--folder", folder, "--epochs", 10_000,
                                "--images", 200), {"HOROVOD_OPT_MODE": mode})
    last = place.hosts.names[SLURM_NODES - 1]
    stays = place.ranks // SLURM_NODES

    def trains_on(ranks: int) -> bool:
        """Whether the last line says so."""
        *_, line = ["", *re.findall(r"rank \d+ of (\d+), epoch", job.output())]
        return line == str(ranks)

    try:
        for ranks, update in ((place.ranks, None), (stays, ("state=drain", "reason=trial")),
                              (place.ranks, ("state=resume",))):
            if update:
                place.slurm.call("scontrol", "update", f"nodename={last}", *update)
            if not wait(lambda: job.has_ended() or trains_on(ranks), HANG_SECONDS):
                return _wrong(job, f"does not come to {ranks} ranks")
            if job.has_ended():
                return _wrong(job, f"ended with {job.how()}")
    finally:
        job.cancel()
    if not wait(job.has_ended, HANG_SECONDS):
        return _wrong(job, f"has not ended {HANG_SECONDS} s after it was cancelled")
    text = f"{place.ranks} ranks, {stays}, {place.ranks}; {job.how()}"
    return _check_leftovers(before, text)


def _endless(place: Place, start: Start, folder: Path, how: str, mode: str) -> Job:
    return start(place, folder, ("python", ENDLESS, folder, how), {"HOROVOD_OPT_MODE": mode})


def _wrong(job: Job, what: str) -> Result:
    print(f"{job.output()[-3000:]}\n", file=sys.stderr, flush=True)
    return Result(what, what)


# What a job leaves behind


def _inventory() -> set[object]:
    """Processes, with the time at which they began, and files in shared memory."""
    return {*_processes(), *SHARED.rglob("*")}


def _processes() -> dict[tuple[int, float], str]:
    lines = {}
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                line = " ".join(process.cmdline()) or process.name()
                lines[process.pid, process.create_time()] = line
        except psutil.NoSuchProcess:
            continue
    return lines


def _check_leftovers(before: set[object], text: str) -> Result:
    def leftovers() -> list[str]:
        lines = [f"{key[0]} {line}" for key, line in _processes().items() if key not in before]
        return lines + [str(path) for path in SHARED.rglob("*") if path not in before]

    if wait(lambda: not leftovers(), LINGER_SECONDS):
        return Result(text)
    return Result(f"{text}, left {len(leftovers())} things",
                  f"left behind: {'; '.join(leftovers())}")


TRIALS: dict[str, Callable[..., Result]] = {
    **{framework: lambda *where, framework=framework, mode: trains(*where, framework, mode)
       for framework in PROGRAMS},
    **{f"a rank {how}": lambda *where, how=how, mode: fails(*where, how, mode)
       for how in ("exits", "is killed")},
    "cancelled": is_cancelled,
    LOSES_A_NODE: loses_a_node,
}
