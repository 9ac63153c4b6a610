"""Trials of the input side: ranks and workers are killed, and others go on from the last state."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple, Optional

import data_sets
import psutil
from gloo_ranks import GlooRanks
from input_model import FORMATS, LABEL, PACKINGS, RECORD, TAR, DataSet, keys_chosen
from input_verdict import Share, check_shares, check_training
from jobs import HANG_SECONDS, PYTHONPATH, rank_lines

HERE = Path(__file__).resolve().parent
WORKER = HERE / "workers" / "soak_input.py"
MODULES = (PYTHONPATH, HERE, Path(data_sets.__file__).parent)
VICTIMS = ("reader", "member", "worker", "all")
READS_BY = ("loader", "loader", "sampler", "tensorflow")
END_SECONDS = 120  # in which the others end
LEFT_SECONDS = 15  # in which workers follow their rank
RUN_SECONDS = 3  # from the first to the last batch, if nobody is killed


class Run(NamedTuple):
    """A job of so many ranks, and who is killed how long after its first batch; "": nobody. Ranks
    of each of `groups` have the same samples; None: all have others."""

    ranks: int
    workers: int
    victim: str
    seconds: float
    groups: Optional[list[list[int]]]

    @property
    def shares(self) -> list[list[int]]:
        return self.groups or [[rank] for rank in range(self.ranks)]


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
    seed: int
    data: DataSet
    options: dict  # of hio.open
    batch: dict
    epochs: int
    save_every: int
    loops: Loops
    runs: tuple[Run, ...]

    def describe(self) -> str:
        runs = ", ".join(f"{run.ranks} ranks" + f" in groups {run.groups}" * bool(run.groups)
                         + f" with workers {run.workers}" * (run.workers > 0)
                         + f" until {run.victim} killed" * bool(run.victim) for run in self.runs)
        return (f"{self.data.describe()}, {self.options}, {self.batch}, {self.loops.describe()}, "
                f"{runs}")


def trial(seed: int) -> InputTrial:
    random = Random(seed)
    samples = random.choice((random.randint(4, 60), random.randint(200, 900)))
    options = {"seed": random.randrange(1000), "shuffle": random.random() < 0.8,
               "chunk_samples": random.randint(1, 40), "deal": random.choice(("node", "job"))}
    if options["shuffle"] and random.random() < 0.35:
        options["order"] = "ordered"
    batch = {"batch_size": random.randint(1, 12)} if random.random() < 0.5 else {
        "global_batch_size": random.randint(4, 24)}
    runs = [_run(random, random.choice(VICTIMS)) for _ in range(random.randint(1, 3))]
    data = _data(random, samples, options["shuffle"])
    if not data.packed and random.random() < 0.3:
        options["cache"] = random.choice(("12KiB", "1MiB"))
    return InputTrial(seed, data, options, {**batch, "last": random.choice(("spread", "mask"))},
                      random.randint(2, 3), random.randint(1, 5), _loops(random),
                      (*runs, _run(random, "")))


def _data(random: Random, samples: int, is_shuffled: bool) -> DataSet:
    """Of which as many come in an epoch as there may be ranks."""
    kind = random.choice(FORMATS)
    data = DataSet(kind, random.choice(("", *PACKINGS[kind])), samples,
                   random.randint(samples // 4, samples * 3 // 4))
    if kind == TAR and random.random() < 0.4:
        data = data._replace(lacks=random.sample(range(samples), samples // 5),
                             lacking=random.choice(("skip", "keep")))
    if kind == TAR and random.random() < 0.3:
        data = data._replace(parts=random.choice(([RECORD], [LABEL, RECORD])) if not data.lacks
                             else [RECORD])
    if random.random() < 0.5:
        data = _choice(random, data)
    how = random.choice(("", "weights", "shares")) if is_shuffled else ""
    if how == "shares" and data.has_both_files:
        return data._replace(shares=(random.randint(1, 4), random.randint(1, 4)))
    if how == "weights":
        weights = random.choices((0, 1, 1, 2, 3) if samples >= 200 else (1, 1, 2, 3), k=samples)
        weights[data.taken()[0]] = 1
        return data._replace(weights=weights)
    return data


def _choice(random: Random, data: DataSet) -> DataSet:
    """All of them where the choice would leave too few."""
    how = random.choice(("bool", "numbers", *("keys", "keys") * (data.format == TAR)))
    if how == "keys":
        digits = random.sample("0123456789", 4)
        out = [f"!*{digit}" for digit in digits[:random.randint(1, 3)]]
        how = random.choice((out, [f"*{digit}" for digit in digits],
                             ["*0", "*[1-6]", "s00*", "!*3"]))
        chosen = keys_chosen(how, data.samples)
    else:
        chosen = random.sample(range(data.samples), random.randint(
            data.samples // 3, data.samples - 1))
    wanted = data._replace(choose=how, chosen=chosen)
    taken = wanted.taken()
    return wanted if len(taken) >= 8 and {*taken} - {*data.lacks} else data


def _loops(random: Random) -> Loops:
    return Loops(random.choice(READS_BY), *(random.random() < 0.4 for _ in range(4)),
                 random.randint(1, 4), random.choice((0, random.randint(1, 30))))


def _run(random: Random, victim: str) -> Run:
    ranks = random.randint(2 if victim == "member" else 1, 4)
    workers = 1 if victim == "worker" else random.choice((0, 0, 1))
    groups = None
    if ranks in (2, 4) and random.random() < 0.4:
        order = random.sample(range(ranks), ranks)
        groups = [order[:ranks // 2], order[ranks // 2:]] if ranks == 4 else [order]
    return Run(ranks, workers, victim, random.uniform(0, RUN_SECONDS / 2), groups)


def perform(trial: InputTrial, folder: Path) -> dict:
    """What a line of the soak run's results holds. The folder stays if something is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    begun = time.monotonic()
    trial.data.write(folder)
    state, problems, taken, killed = folder / "state.json", [], [], 0
    for number, run in enumerate(trial.runs):
        before = _position(state)
        part = folder / f"run-{number}"
        of_run, was_killed = _perform(trial, run, part, state)
        shares, of_shares = check_shares(run.shares, rank_lines(part, run.ranks), before,
                                         _position(state))
        problems += [f"run {number}: {problem}" for problem in of_run + of_shares]
        killed += was_killed
        taken += shares
    if not problems:
        problems = check_training(trial, taken, _position(state), folder)
    if not problems:
        shutil.rmtree(folder)
    return {"seed": trial.seed, "trial": trial.describe(), "found": problems,
            "seconds": round(time.monotonic() - begun, 1),
            "results": sum(len(share.numbers) for share in taken), "killed": killed,
            "planned_iterations": 0, "kinds": kinds_of(trial, taken)}


def kinds_of(trial: InputTrial, taken: list[Share]) -> dict[str, int]:
    """How many samples were compared with what the data and the jobs are."""
    data, total = trial.data, sum(len(share.numbers) for share in taken)
    kinds = {data.format: total, data.packed or "plain": total,
             trial.loops.reads_by: total, "order ordered": total * ("order" in trial.options),
             "cache": total * ("cache" in trial.options), "lacking": total * bool(data.lacks),
             "chosen": total * bool(data.choose), "weights": total * bool(data.weights),
             "shares": total * bool(data.shares)}
    kinds["groups"] = sum(len(share.numbers) for share in taken if share.ranks > 1)
    return {kind: count for kind, count in kinds.items() if count}


def _position(state: Path) -> tuple[int, int]:
    if not state.exists():
        return 0, 0
    place = json.loads(state.read_text())
    return place["epoch"], place["position"]


def _perform(trial: InputTrial, run: Run, folder: Path, state: Path) -> tuple[list[str], bool]:
    """What went wrong: ranks that do not end when one was killed, or fail when none was. And
    whether somebody was: a job may be over before, or have no workers."""
    folder.mkdir()
    batch = trial.batch.get("global_batch_size") or len(run.shares) * trial.batch["batch_size"]
    settings = {"data": trial.data._asdict(), "folder": str(folder.parent),
                "open": {**trial.options, "groups": run.groups},
                "loader": {**trial.batch, "workers": run.workers,
                           "epoch_batches": trial.loops.batches or None},
                "epochs": trial.epochs, "save_every": trial.save_every,
                "loops": trial.loops._asdict(), "seed": trial.seed,
                "epoch_seconds": RUN_SECONDS / trial.epochs, "batch": batch}
    (folder / "settings.json").write_text(json.dumps(settings))
    job = GlooRanks(folder, WORKER, folder / "settings.json", state, ranks=run.ranks,
                    PYTHONPATH=os.pathsep.join(map(str, MODULES)))
    was_killed = False
    try:
        was_killed = bool(run.victim) and _kill(job, run, folder)
        _end_orphans(job, folder, END_SECONDS if was_killed else HANG_SECONDS)
        ends = job.wait(0)
    except subprocess.TimeoutExpired:
        return [f"hangs, with {run.victim if was_killed else 'nobody'} killed"], was_killed
    finally:
        job.kill()
        survivors = list(_survivors(folder))
    failed = [f"rank {rank}: {end.errors[-2000:]}" for rank, end in enumerate(ends) if end.code]
    return survivors + failed * (not was_killed), was_killed


def _end_orphans(job: GlooRanks, folder: Path, seconds: float) -> None:
    """Until no rank is left, or so long. A worker that PyTorch forks just as its rank is killed
    takes its new parent for the old one: it lives for ever, with the rank's connections, of which
    the other ranks then do not see the end."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ranks = {process.pid for process in job.processes if process.poll() is None}
        if not ranks:
            return
        for process in _processes_in(folder):
            with contextlib.suppress(psutil.Error):
                if process.pid not in ranks and process.ppid() not in ranks and (
                        not _has_taken(process, folder)):
                    process.kill()
        time.sleep(1)


def _survivors(folder: Path) -> Iterator[str]:
    """Ends what outlives its rank, and names what must not: a worker that has taken a sample."""
    psutil.wait_procs(_processes_in(folder), timeout=LEFT_SECONDS)
    survivors = _processes_in(folder)
    for process in survivors:
        if _has_taken(process, folder):
            yield f"outlives its rank: {process}"
        process.kill()
    psutil.wait_procs(survivors)


def _processes_in(folder: Path) -> list[psutil.Process]:
    """Those of a job, which run in its folder, without those that have ended."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == os.path.realpath(folder):
                found.append(process)
    return found


def _has_taken(process: psutil.Process, folder: Path) -> bool:
    return (folder / f"worker-{process.pid}").exists()


def _kill(job: GlooRanks, run: Run, folder: Path) -> bool:
    """Whether somebody was there to be killed."""
    deadline = time.monotonic() + HANG_SECONDS
    while not all(rank_lines(folder, run.ranks)) and time.monotonic() < deadline and any(
            process.poll() is None for process in job.processes):
        time.sleep(0.02)
    time.sleep(run.seconds)
    processes = [psutil.Process(process.pid) for process in job.processes if process.poll() is None]
    workers = [child for process in processes for child in _children(process)]
    victims = {"reader": processes[:1], "member": processes[1:][-1:], "worker": workers[:1],
               "all": processes}[run.victim]
    killed = 0
    for victim in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
            killed += 1
    return killed > 0


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
