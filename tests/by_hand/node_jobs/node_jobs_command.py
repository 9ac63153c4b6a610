"""The command: jobs on nodes of their own, that are killed, held up and resized; and what of each
sample has come."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Optional

from data_sets import files, tfrecord
from node_rank import Job, content, run_rank

from horovod_lab.io.testbeds.nodes import ADDRESS, Nodes

NODES, SAMPLES, EPOCHS = 4, 600, 3
BOUND = 60  # s, in which a job ends, or gets to a place; whatever it waits for ends before
FAULTS = ("none", "killed", "killed", "stopped")
FORMATS = ("records", "folder")


class Wrong(Exception):
    """What a job has done that it must not."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="no further trial begins behind these")
    options = parser.parse_args()
    counts: Counter = Counter()
    begin, seed, failures = time.monotonic(), options.seed, 0
    with tempfile.TemporaryDirectory() as top:
        data = {"records": str(tfrecord(Path(top) / "a.tfrecord", map(content, range(SAMPLES)))),
                "folder": str(files(Path(top) / "files", {
                    f"{number % 5}/{number:04d}": content(number) for number in range(SAMPLES)}))}
        nodes = Nodes(NODES)
        try:
            while counts["jobs"] < options.jobs and (
                    options.minutes is None or time.monotonic() - begin < 60 * options.minutes):
                with tempfile.TemporaryDirectory(dir=top) as folder:
                    try:
                        _try(nodes, data, Path(folder), random.Random(seed), counts)
                    except Wrong as wrong:
                        failures += 1
                        print(f"seed {seed}: {wrong}", flush=True)
                    seed += 1
                if sys.stderr.isatty():
                    print(f"\r{counts['jobs']} jobs", end="", file=sys.stderr)
        finally:
            nodes.close()
    for name, count in sorted(counts.items()):
        print(f"{count:9} {name}")
    print(f"{failures} of {seed - options.seed} trials wrong, {time.monotonic() - begin:.0f} s")
    return int(failures > 0)


def _try(nodes: Nodes, data: dict[str, str], folder: Path, chance: random.Random,
         counts: Counter) -> None:
    """Jobs that follow each other, each from the state of the one before, until the last one has
    come to its end."""
    order = chance.choice(["ordered", "ordered", "window"])
    fixed: dict[str, Any] = {"seed": chance.randrange(100), "order": order,
                             "chunk_samples": chance.choice([3, 10, 40])}
    if order == "ordered":  # in less memory than the data has, little can be read ahead
        fixed["memory"] = chance.choice([None, "4MiB"])
    else:
        fixed |= {"shards": chance.randint(1, 4), "window": chance.randint(1, 4)}
    pattern = data[chance.choice(FORMATS)]
    batch = chance.choice([{"batch_size": chance.randint(2, 8)}, {"global_batch_size": 24}])
    state, taken = None, Counter()
    faults = [chance.choice(FAULTS[1:]) for _ in range(chance.randint(0, 2))] + ["none"]
    for attempt, fault in enumerate(faults):
        kept = {"cache": chance.choice([None, "1MiB", "5MiB", "32MiB", "32MiB"]),
                "deal": chance.choice(["node", "job"])}
        ranks = chance.sample(range(NODES), chance.randint(1, NODES))
        job = Job([ADDRESS.format(0, node + 1).partition("/")[0] for node in ranks], pattern,
                  {**fixed, **kept}, batch, EPOCHS, folder, state, attempt)
        what = f"job {attempt} of {len(ranks)} nodes, {job.options}, {batch}, {fault}"
        try:
            _run(nodes, ranks, job, fault, chance)
        except Wrong as wrong:
            raise Wrong(f"{what}: {wrong}{_logs(job)}") from None
        counts["jobs"] += 1
        counts[f"jobs with fault {fault}"] += 1
        counts[f"jobs with order {order}"] += 1
        counts["jobs with a cache"] += kept["cache"] is not None
        path = folder / "state"
        state = json.loads(path.read_text()) if path.exists() else state
        taken += _taken(job, state)
        for stats in folder.glob("stats.*"):
            row = json.loads(stats.read_text())
            for name in ("peer_bytes", "fallback_bytes"):
                counts[name] += int(row.get(name, 0))
            stats.unlink()
    expected = Counter({(epoch, number): 1 for epoch in range(EPOCHS)
                        for number in range(SAMPLES)})
    if taken != expected:
        lost, more = list((expected - taken).items())[:5], list((taken - expected).items())[:5]
        raise Wrong(f"{fixed}, {batch}, {faults}: lost {lost}, repeated {more}")
    counts["samples, each once an epoch"] += len(expected)


def _run(nodes: Nodes, ranks: list[int], job: Job, fault: str, chance: random.Random) -> None:
    processes = {}
    for rank, node in enumerate(ranks):
        processes[rank] = os.fork()
        if not processes[rank]:
            run_rank(job, rank, int(nodes.path(node, Path("/")).parts[2]))
    killed: Optional[int] = None
    try:
        if fault != "none":
            at = chance.uniform(0, EPOCHS)
            _await(lambda: _ended(processes) or _has_begun(job) and _progress(job) >= at,
                   f"no place {at:.2f}")
            victim = chance.choice(list(processes))
            killed = victim if fault == "killed" else None
            if not _ended(processes):
                os.kill(processes[victim],
                        signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
                if fault == "stopped":
                    time.sleep(chance.choice([0.5, 2, 7]))  # 5 s without a word: it is lost
                    os.kill(processes[victim], signal.SIGCONT)
        _await(lambda: len(_ended(processes)) == len(processes), "a rank does not end")
    finally:
        statuses, ended = {}, _ended(processes)
        for rank, process in processes.items():
            if rank not in ended:
                os.kill(process, signal.SIGKILL)
            statuses[rank] = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    has_died = killed is not None and statuses[killed] == -signal.SIGKILL
    if not has_died and any(statuses.values()):
        raise Wrong(f"exit statuses {statuses}")


def _ended(processes: dict[int, int]) -> list[int]:
    """Ranks whose processes have ended, and are not yet waited for."""
    return [rank for rank, process in processes.items()
            if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None]


def _await(is_so, what: str) -> None:
    until = time.monotonic() + BOUND
    while not is_so():
        if time.monotonic() > until:
            raise Wrong(f"{what} within {BOUND} s")
        time.sleep(0.002)


def _has_begun(job: Job) -> bool:
    """Whether all ranks take something."""
    paths = list(job.folder.glob(f"taken.{job.attempt}.*"))
    return len(paths) == len(job.addresses) and all(path.stat().st_size for path in paths)


def _progress(job: Job) -> float:
    """Epochs."""
    path = job.folder / "state"
    if not path.exists():
        return 0
    state = json.loads(path.read_text())
    return state["epoch"] + state["position"] / SAMPLES


def _taken(job: Job, state: Optional[dict]) -> Counter:
    """What counts: what came after the state that the job began with, and before that of its
    end."""
    place = (-1, 0) if state is None else (state["epoch"], state["position"])
    taken: Counter = Counter()
    for path in job.folder.glob(f"taken.{job.attempt}.*"):
        for line in path.read_text().split("\n")[:-1]:  # the last one may be torn
            epoch, _, end, numbers = json.loads(line)
            if (epoch, end) <= place:
                taken.update((epoch, number) for number in numbers)
    return taken


def _logs(job: Job) -> str:
    return "".join(f"\n--- {path.name}\n{path.read_text()[-2000:]}"
                   for path in sorted(job.folder.glob(f"log.{job.attempt}.*")))
