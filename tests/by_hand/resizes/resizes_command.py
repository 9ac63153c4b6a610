"""Elastic jobs that train on files and save versions: ranks are killed, their number changes, and
whole jobs end and begin again, at random. In the end the weights have seen each sample exactly once
an epoch, and the loss is that of jobs that nothing disturbed.

    python tests/by_hand/resizes/run torch
    python tests/by_hand/resizes/run tensorflow --events 100 --seed 1 --most 8

Exit status 1 if something was lost, came twice, or did not end.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Optional

import numpy as np
import psutil
from data_sets import tfrecord
from jobs import PYTHONPATH, Job, elastic, run_job

from horovod_opt.arguments import INTERRUPTED, above_zero

HERE = Path(__file__).parent
SAMPLES, BATCH, EPOCHS, FEATURES, CLASSES = 509, 24, 5, 8, 3
STEPS = EPOCHS * math.ceil(SAMPLES / BATCH)
STEP_SECONDS = 0.08  # the launcher looks for hosts every second
UNDISTURBED = 10
STANDARD_DEVIATIONS = 3
HANG_SECONDS = 300.0  # without a step
JOB_SECONDS = 3600.0
KILLED = str(128 + signal.SIGKILL)
MOST_WRONG = 3  # more say no more
# How often what happens: one rank dies, other ranks come or go, all die and a new job begins.
KINDS = {"kill": 5, "resize": 5, "end": 1}
# Horovod does not use a name of a host again where a worker has died; these are all this host.
HOSTS = [f"{first}.{rest}" for first, rest in product(
    ("127", "0x7f", "0177", "0X7F", "00177"),
    ("1", "0x1", "01", "0.1", "0x0.1", "00.1", "0.01", "0.0x1", "0.0.1", "0.0.01", "0.00.1",
     "0x0.0.1"))]


class Lost(Exception):
    """What is wrong; one line."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/by_hand/resizes/run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=("torch", "tensorflow"))
    parser.add_argument("--events", type=int, default=100, help="at least (%(default)d)")
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn (%(default)d)")
    parser.add_argument("--most", type=int, default=8, help="ranks (%(default)d)")
    parser.add_argument("--mode", default="topo", help="HOROVOD_OPT_MODE (%(default)s)")
    parser.add_argument("--undisturbed", type=int, default=UNDISTURBED,
                        help="jobs to compare with (%(default)d)")
    parser.add_argument("--minutes", type=above_zero("minutes"), default=600.0,
                        help="no job begins after so many (%(default)g)")
    parser.add_argument("--json", type=Path, help="where the result is written")
    parser.add_argument("--keep", type=Path, default=Path("build/resizes"), metavar="FOLDER",
                        help="for folders of what went wrong (%(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as top:
        result = compare(options, Path(top))
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return int(bool(result["wrong"]))


def compare(options: argparse.Namespace, top: Path) -> dict:
    chance = random.Random(options.seed)
    data = make_data(top)
    began = time.monotonic()
    events: Counter = Counter()
    losses: dict[str, list[float]] = {"undisturbed": [], "disturbed": []}
    wrong: list[str] = []
    shares: list[dict[str, float]] = []

    def run(name: str, kind: str, plan: Optional[random.Random], ranks: int) -> None:
        training = Training(top / name, data, options, plan, ranks)
        try:
            result = training.run()
            losses[kind].append(result["loss"])
            if kind == "undisturbed":
                shares.append({what: round(value / result["seconds"]["all"], 4)
                               for what, value in result["seconds"].items() if what != "all"})
            words = f"loss {result['loss']:.6f}, {result['ranks']} ranks at the end"
        except Lost as problem:
            wrong.append(f"{name}: {problem}")
            shutil.copytree(top / name, options.keep / name, dirs_exist_ok=True)
            words = f"WRONG: {problem}"
        events.update(training.events)
        print(f"{name}: {dict(training.events)}, {words}", flush=True)

    for number in range(options.undisturbed):
        run(f"undisturbed-{number}", "undisturbed", None, number % options.most + 1)
    number = 0
    while sum(events.values()) < options.events:
        if len(wrong) > MOST_WRONG or time.monotonic() - began > 60 * options.minutes:
            break
        plan = random.Random(chance.random())
        run(f"disturbed-{number}", "disturbed", plan, plan.randint(1, options.most))
        number += 1
    wrong += too_far(losses)
    return {"framework": options.framework, "mode": options.mode, "seed": options.seed,
            "events": dict(events), "losses": losses, "wrong": wrong,
            "shares of the steps' time, undisturbed": shares,
            "seconds": round(time.monotonic() - began)}


def too_far(losses: dict[str, list[float]]) -> list[str]:
    if len(losses["undisturbed"]) < 2:
        return []
    mean = statistics.mean(losses["undisturbed"])
    deviation = statistics.stdev(losses["undisturbed"])
    # Sums of other numbers of ranks differ in rounding alone.
    bound = max(STANDARD_DEVIATIONS * deviation, 1e-6 * mean)
    return [f"a loss of {loss}, where undisturbed jobs have {mean} +- {deviation}"
            for loss in losses["disturbed"] if abs(loss - mean) > bound]


def make_data(folder: Path) -> Path:
    """Records of a number, features and a class, which beside the file are in JSON."""
    draw = np.random.default_rng(1)
    classes = draw.integers(CLASSES, size=SAMPLES)
    centers = draw.normal(size=(CLASSES, FEATURES))
    features = (centers[classes] + draw.normal(size=(SAMPLES, FEATURES))).astype(np.float32)
    path = tfrecord(folder / "data.tfrecord", (
        number.to_bytes(4, "little") + features[number].tobytes() + bytes([classes[number]])
        for number in range(SAMPLES)))
    path.with_suffix(".json").write_text(json.dumps(
        {"features": features.tolist(), "classes": classes.tolist()}))
    return path


class Training:
    """To its end, in one job after the other. Without a `plan` nothing happens to it."""

    def __init__(self, folder: Path, data: Path, options: argparse.Namespace,
                 plan: Optional[random.Random], ranks: int):
        self.events: Counter = Counter()
        self._folder, self._data, self._options = folder, data, options
        self._plan, self._ranks = plan, ranks
        self._unused = list(HOSTS)
        self._hosts: list[str] = []
        self._next = 0  # step at which something happens

    def run(self) -> dict:
        """What came of it. Raises Lost."""
        self._folder.mkdir()
        jobs = 0
        while not (self._folder / "result").exists():
            if jobs > 50:
                raise Lost("no end after 50 jobs")
            self._run_job(jobs)
            jobs += 1
        result = json.loads((self._folder / "result").read_text())
        seen = Counter(result["seen"])
        if seen != {EPOCHS: SAMPLES}:
            raise Lost(f"of {SAMPLES} samples the weights have seen, by how often: {dict(seen)}")
        if result["step"] != STEPS:
            raise Lost(f"{result['step']} steps instead of {STEPS}")
        return result

    def _run_job(self, number: int) -> None:
        self._unused = list(HOSTS)  # a new launcher knows of no dead ones
        self._hosts = [self._unused.pop(0) for _ in range(self._ranks)]
        options = list(elastic(self._folder, "", most=self._options.most))
        options[options.index("-np") + 1] = self._ranks
        options[options.index("--min-np") + 1] = 1
        self._write_hosts()
        jobs: list[Job] = []
        thread = threading.Thread(target=lambda: jobs.append(run_job(
            self._folder, HERE / "resized_training.py", self._options.framework, self._data,
            BATCH, EPOCHS, STEP_SECONDS, options=tuple(options), seconds=JOB_SECONDS,
            HOROVOD_OPT_MODE=self._options.mode,
            PYTHONPATH=os.pathsep.join([str(HERE), PYTHONPATH]))))
        thread.start()
        ended = self._watch(thread)
        thread.join()
        output = self._folder / "output.txt"
        output.rename(self._folder / f"output-{number}.txt")
        if jobs[0].code != 0 and not ended:
            # Who knew the state was killed, or had gone, before those that came had it of him.
            if set(re.findall(r"Exit code: (\d+)", jobs[0].output)) != {KILLED}:
                raise Lost(f"job {number} failed, see its end: {jobs[0].output[-1500:]}")
            self.events["nobody left"] += 1
            self._ranks = self._plan.randint(1, self._options.most)
        if jobs[0].survivors:
            raise Lost(f"job {number} left {jobs[0].survivors}")

    def _watch(self, thread: threading.Thread) -> bool:
        """Lets things happen until the job has ended: whether that was one of them."""
        before, since = self._step(), time.monotonic()
        self._draw_next()
        while thread.is_alive():
            time.sleep(0.02)
            step = self._step()
            if step != before:
                before, since = step, time.monotonic()
            elif time.monotonic() - since > HANG_SECONDS:
                stacks = self._end()
                raise Lost(f"no step for {HANG_SECONDS:.0f} s after step {step}; {stacks}")
            if self._plan and step >= self._next and not (self._folder / "result").exists():
                if self._happen():
                    return True
                self._draw_next()
        return False

    def _draw_next(self) -> None:
        if self._plan:
            self._next = self._step() + self._plan.randint(3, 14)

    def _happen(self) -> bool:
        """Whether the job is over by it."""
        kind, = self._plan.choices(list(KINDS), list(KINDS.values()))
        workers = self._workers()
        if not workers:
            return False
        self.events[kind] += 1
        if kind == "resize":
            self._resize(self._plan.randint(1, self._options.most))
            return False
        if kind == "kill" and len(workers) > 1:
            worker = self._plan.choice(workers)
            host = (self._folder / "workers" / str(worker.pid)).read_text()
            worker.kill()
            if host in self._hosts:
                self._hosts.remove(host)
            is_replaced = self._plan.random() < 0.7
            self._resize(max(1, len(self._hosts) + is_replaced))
            return False
        self._end()
        self._ranks = self._plan.randint(1, self._options.most)
        return True

    def _resize(self, ranks: int) -> None:
        while len(self._hosts) < ranks and self._unused:
            self._hosts.append(self._unused.pop(0))
        while len(self._hosts) > ranks:
            self._hosts.remove(self._plan.choice(self._hosts))
        self._write_hosts()

    def _write_hosts(self) -> None:
        part = self._folder / "hosts.part"
        part.write_text("".join(f"{host}:1\n" for host in self._hosts))
        part.rename(self._folder / "hosts")  # it is read at any time

    def _end(self) -> str:
        """All of the job, at once."""
        for process in self._launchers():
            process.kill()
        workers = self._workers()
        for worker in workers:
            worker.kill()
        return f"{len(workers)} workers were alive"

    def _launchers(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if any(word.endswith("horovodrun") for word in words) and str(self._folder) in words:
                found.append(process)
        return found

    def _workers(self) -> list[psutil.Process]:
        workers = []
        for path in sorted((self._folder / "workers").glob("*")):
            try:
                process = psutil.Process(int(path.name))
                if str(self._folder) in process.cmdline():
                    workers.append(process)
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        return workers

    def _step(self) -> int:
        try:
            return json.loads((self._folder / "progress").read_text())[0]
        except FileNotFoundError:
            return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
