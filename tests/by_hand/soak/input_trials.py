"""Trials of the input side: ranks and workers are killed, and others go on from the last state."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple, Optional

import numpy as np
import psutil
from data_sets import tfrecord
from gloo_ranks import GlooRanks
from jobs import rank_lines

import horovod_opt.io as hio

WORKER = Path(__file__).parent / "workers" / "soak_input.py"
VICTIMS = ("reader", "member", "worker", "all")
READS_BY = ("loader", "loader", "sampler", "tensorflow")
PACKINGS = {"": bytes, "gzip": gzip.compress, "zlib": zlib.compress}
FILES = ("a.tfrecord", "b.tfrecord")
START_SECONDS = 120  # in which the first batch comes
END_SECONDS = 60  # in which the others end
RUN_SECONDS = 3  # from the first to the last batch, if nobody is killed


class Run(NamedTuple):
    """A job of so many ranks, and who is killed how long after its first batch; "": nobody."""

    ranks: int
    workers: int
    victim: str
    seconds: float


class Loops(NamedTuple):
    """How all ranks loop: over `loader`, PyTorch's DataLoader with a BatchSampler, or TensorFlow's
    data set, of which they say what was taken after every k-th batch (`every`); with new loaders
    each time, which nobody closes (`anew`); looking at a first batch before (`looks`); leaving a
    loop early, and going on from the state (`leaves`); and with a state that rank 0 alone has
    loaded, which all must hear of (`disagrees`). Loops have so many `batches`, that of
    epoch_batches=; 0: an epoch."""

    reads_by: str
    anew: bool
    looks: bool
    leaves: bool
    disagrees: bool
    every: int
    batches: int

    def describe(self) -> str:
        which = [name for name in self._fields[1:-2] if getattr(self, name)]
        loop = [f"in loops of {self.batches}"] * (self.batches > 0)
        return " ".join([self.reads_by, *which, f"every {self.every}", *loop])


class InputTrial(NamedTuple):
    """`first` of the samples are in a file of their own; with `shares` the two files are mixed by
    these, else samples have `weights`, or all come once. Files are `packed` in one of PACKINGS."""

    seed: int
    samples: int
    first: int
    shares: Optional[tuple[int, int]]
    weights: Optional[list[int]]
    options: dict
    batch: dict
    epochs: int
    save_every: int
    loops: Loops
    runs: tuple[Run, ...]
    packed: str

    def describe(self) -> str:
        runs = ", ".join(f"{run.ranks} ranks" + f" with workers {run.workers}" * (run.workers > 0)
                         + f" until {run.victim} killed" * bool(run.victim) for run in self.runs)
        what = " ".join([str(self.samples), *[self.packed] * bool(self.packed), "samples",
                         *["weighted"] * bool(self.weights), *[f"mixed {self.shares}"] * bool(
                             self.shares)])
        return f"{what}, {self.options}, {self.batch}, {self.loops.describe()}, {runs}"

    def open_options(self, folder: Path) -> dict:
        """As JSON has them: arguments of hio.open, of which `weights` is a list."""
        paths = [str(folder / name) for name in FILES]
        pattern = dict(zip(paths, self.shares)) if self.shares else paths
        return {**self.options, "pattern": pattern,
                **({"weights": self.weights} if self.weights else {})}


def trial(seed: int) -> InputTrial:
    random = Random(seed)
    samples = random.choice((random.randint(4, 60), random.randint(200, 900)))
    options = {"seed": random.randrange(1000), "shuffle": random.random() < 0.8,
               "chunk_samples": random.randint(1, 40)}
    batch = {"batch_size": random.randint(1, 12)} if random.random() < 0.5 else {
        "global_batch_size": random.randint(4, 24)}
    runs = [_run(random, random.choice(VICTIMS)) for _ in range(random.randint(1, 3))]
    how = random.choice(("", "weights", "shares")) if options["shuffle"] else ""
    shares = (random.randint(1, 4), random.randint(1, 4)) if how == "shares" else None
    some = (0, 1, 1, 2, 3) if samples >= 200 else (1, 1, 2, 3)  # enough for all ranks
    weights = [random.choice(some) for _ in range(samples)] if how == "weights" else None
    return InputTrial(seed, samples, random.randint(samples // 4, samples * 3 // 4), shares,
                      weights, options, {**batch, "last": random.choice(("spread", "mask"))},
                      random.randint(2, 3), random.randint(1, 5), _loops(random),
                      (*runs, _run(random, "")), random.choice(("", "", *PACKINGS)))


def _loops(random: Random) -> Loops:
    return Loops(random.choice(READS_BY), *(random.random() < 0.4 for _ in range(4)),
                 random.randint(1, 4), random.choice((0, random.randint(1, 30))))


def _run(random: Random, victim: str) -> Run:
    ranks = random.randint(2 if victim == "member" else 1, 4)
    workers = 1 if victim == "worker" else random.choice((0, 0, 1))
    return Run(ranks, workers, victim, random.uniform(0, RUN_SECONDS / 2))


def perform(trial: InputTrial, folder: Path) -> dict:
    """What a line of the soak run's results holds. The folder stays if something is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    begun = time.monotonic()
    records = [number.to_bytes(4, "little") + bytes(number % 50) for number in range(trial.samples)]
    for name, part in zip(FILES, (records[:trial.first], records[trial.first:])):
        path = tfrecord(folder / name, part)
        path.write_bytes(PACKINGS[trial.packed](path.read_bytes()))
    state, problems, lines, killed = folder / "state.json", [], [], 0
    for number, run in enumerate(trial.runs):
        before = _position(state)
        part = folder / f"run-{number}"
        of_run, was_killed = _perform(trial, run, part, state)
        problems += [f"run {number}: {problem}" for problem in of_run]
        killed += was_killed
        lines += _committed_lines(rank_lines(part, run.ranks), before, _position(state))
    if not problems:
        problems = _wrong(trial, lines, _position(state), folder)
    if not problems:
        shutil.rmtree(folder)
    return {"seed": trial.seed, "trial": trial.describe(), "found": problems,
            "seconds": round(time.monotonic() - begun, 1),
            "results": sum(len(line["numbers"]) for line in lines), "killed": killed,
            "planned_iterations": 0}


def _position(state: Path) -> tuple[int, int]:
    if not state.exists():
        return 0, 0
    place = json.loads(state.read_text())
    return place["epoch"], place["position"]


def _perform(trial: InputTrial, run: Run, folder: Path, state: Path) -> tuple[list[str], bool]:
    """What went wrong: ranks that do not end when one was killed, or fail when none was. And
    whether somebody was: a job may be over before."""
    folder.mkdir()
    batch = trial.batch.get("global_batch_size") or run.ranks * trial.batch["batch_size"]
    settings = {"open": trial.open_options(folder.parent),
                "loader": {**trial.batch, "workers": run.workers,
                           "epoch_batches": trial.loops.batches or None},
                "epochs": trial.epochs, "save_every": trial.save_every,
                "loops": trial.loops._asdict(), "seed": trial.seed,
                "epoch_seconds": RUN_SECONDS / trial.epochs, "batch": batch}
    job = GlooRanks(folder, WORKER, json.dumps(settings), state, ranks=run.ranks)
    try:
        workers = _kill(job, run, folder) if run.victim else []
        ends = job.wait(END_SECONDS if run.victim else START_SECONDS)
    except subprocess.TimeoutExpired:
        return [f"hangs, with {run.victim or 'nobody'} killed"], bool(run.victim)
    finally:
        job.kill()
    _, survivors = psutil.wait_procs(workers, timeout=15)
    problems = [f"outlives its rank: {process}" for process in survivors]
    failed = [f"rank {rank}: {end.errors[-2000:]}" for rank, end in enumerate(ends) if end.code]
    return problems + failed * (not run.victim), bool(failed and run.victim)


def _kill(job: GlooRanks, run: Run, folder: Path) -> list[psutil.Process]:
    """Returns the workers that were there."""
    deadline = time.monotonic() + START_SECONDS
    while not all(rank_lines(folder, run.ranks)) and time.monotonic() < deadline and any(
            process.poll() is None for process in job.processes):
        time.sleep(0.02)
    time.sleep(run.seconds)
    processes = [psutil.Process(process.pid) for process in job.processes if process.poll() is None]
    workers = [child for process in processes for child in _children(process)]
    victims = {"reader": processes[:1], "member": processes[1:][-1:], "worker": workers[:1],
               "all": processes}[run.victim]
    for victim in victims:
        victim.kill()
    return workers


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _committed_lines(reports: Sequence[Sequence[dict]], begin: tuple[int, int],
                     end: tuple[int, int]) -> list[dict]:
    """What ranks took between two states; later steps are not in the state and come again."""
    return [line for lines in reports for line in lines
            if begin <= (line["epoch"], line["start"]) < end]


def _wrong(trial: InputTrial, lines: Sequence[dict], end: tuple[int, int],
           folder: Path) -> list[str]:
    """What was lost or came twice, and steps with other samples than the order has for them."""
    options = trial.open_options(folder)
    weights = options.pop("weights", None)
    with hio.open(**options, weights=weights and (lambda table: weights), alone=True) as data:
        order = data.order
        # Samples are numbered as they are in the files.
        places = data.index.file[:, 0].astype(np.int64) * (1 << 32) + data.index.offset[:, 0]
        _, numbers = np.unique(places, return_inverse=True)
    if weights:
        numbers = np.flatnonzero(weights)[numbers]
    problems = []
    if end != (trial.epochs, 0):
        problems.append(f"the last state is at {end}, not at the end of epoch {trial.epochs - 1}")
    wanted = Counter(numbers.tolist())
    for epoch in range(trial.epochs):
        steps: dict[tuple[int, int], list[int]] = {}
        for line in lines:
            if line["epoch"] == epoch:
                steps.setdefault((line["start"], line["end"]), []).extend(line["numbers"])
        had = Counter(number for step in steps.values() for number in step)
        if had != wanted:
            problems.append(f"epoch {epoch}: lost {sorted((wanted - had).elements())}, too often "
                            f"{sorted((had - wanted).elements())}")
        problems += [f"epoch {epoch}, positions {start} to {end}: other samples"
                     for (start, end), step in steps.items() if sorted(step) != sorted(
                         numbers[order.at(epoch, np.arange(start, end))].tolist())]
    return problems
