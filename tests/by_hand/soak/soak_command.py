"""Runs random trials for some time, and says which of them went wrong.

    make soak SOAK_ARGS="--minutes 60"
    make soak SOAK_ARGS="--runs 10000"
    python tests/by_hand/soak/run --replay 4711

A trial is a job under horovodrun whose program, settings and faults follow from its seed; the run's
own seed is that of its first trial, and those after it count up. Exit status 1 if something was
found, 2 if nothing can be run, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import SystemRandom

import input_trials
import psutil
from drawing import DEFAULT_KINDS, KINDS
from input_trials import InputTrial
from jobs import HANG_SECONDS, PYTHONPATH, run_job
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from trials import CONTROLLERS, Trial, trial
from verdict import problems

from horovod_lab.measuring.launch import end_as_by_ctrl_c
from horovod_opt.arguments import INTERRUPTED, above_zero, some_of
from horovod_opt.launcher import built as build

HERE = Path(__file__).parent
ROOT = HERE.resolve().parents[2]
CONTRACT = ROOT / "tests" / "unit" / "io" / "contract"
WORKER = HERE / "workers" / "soak_rank.py"
# Time for the stacks to be written before the job is killed.
STACKS_SECONDS = HANG_SECONDS - 25
SEEDS = 2**32


class Unusable(Exception):
    """Why no trial can be run; one line."""


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/soak/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=above_zero("minutes"), default=30.0,
                        help="no trial begins after so many (%(default)g)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=_seed, help="of the first trial (random)")
    which.add_argument("--replay", type=_seed, metavar="SEED", help="run this one trial, once")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--groups", action="store_true",
                      help="mode topo only, and ranks that reduce as if on 2, 3 or 4 nodes")
    kind.add_argument("--input", action="store_true",
                      help="the input side: ranks and workers that are killed, and jobs that go on")
    kind.add_argument("--runs", type=_runs, metavar="COUNT",
                      help="so many runs of the input side in one process, and nothing else")
    parser.add_argument("--kinds", type=some_of(KINDS), default=list(DEFAULT_KINDS),
                        help=f"some of {', '.join(KINDS)}, which programs have (all but "
                        f"{', '.join({*KINDS} - {*DEFAULT_KINDS})})")
    parser.add_argument("--json", type=Path, default=Path("build/soak.jsonl"), metavar="FILE",
                        help="a line for each trial; folders of what went wrong go to a folder of "
                        "that name without its ending (%(default)s)")
    arguments = parser.parse_args(argv)
    if arguments.seed is None:
        arguments.seed = SystemRandom().randrange(SEEDS)
    return arguments


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >= SEEDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number below {SEEDS}")
    return int(text)


def _runs(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def simulate(runs: int) -> int:
    """The exit status of so many random runs of the contract's test."""
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "--timeout=0", CONTRACT],
                          cwd=ROOT, check=False,
                          env={**os.environ, "HIO_EXAMPLES": str(runs)}).returncode


def built() -> tuple[list[str], list[str]]:
    """Frameworks and controllers of the installed Horovod. Raises Unusable if there is none."""
    notes = build.notes()
    if notes is None:
        raise Unusable(f"horovod-opt is not installed for {sys.executable}")
    names = {"TensorFlow": "tensorflow", "PyTorch": "torch"}
    frameworks = [names[name] for name in notes["frameworks"] if name in names]
    known = {name.lower() for name in build.controllers()}
    controllers = [name for name in CONTROLLERS if name in known]
    if not frameworks or not controllers:
        raise Unusable("this Horovod was built for no framework or no controller")
    return frameworks, controllers


def trials_from(arguments: argparse.Namespace, frameworks: list[str],
                controllers: list[str]) -> Iterator[Trial]:
    """Those that this Horovod can run."""
    for number in count(arguments.seed):
        candidate = trial(number % SEEDS, arguments.groups, arguments.kinds)
        if candidate.framework in frameworks and candidate.controller in controllers:
            yield candidate


def perform(trial: Trial | InputTrial, folder: Path) -> dict:
    """Runs a trial; what a line of the results holds. Its folder stays if something is wrong."""
    if isinstance(trial, InputTrial):
        return input_trials.perform(trial, folder)
    shutil.rmtree(folder, ignore_errors=True)
    begun = time.monotonic()
    try:
        job = run_job(folder, WORKER, trial.seed, int(trial.groups), STACKS_SECONDS,
                      ",".join(trial.kinds),
                      ranks=trial.ranks, controller=trial.controller, **trial.settings,
                      PYTHONPATH=os.pathsep.join([PYTHONPATH, str(HERE.resolve())]))
    except BaseException:
        for process in psutil.Process().children(recursive=True):
            process.kill()
        raise
    reports = job.reports()
    wrong = problems(trial, job.code, job.hung, job.survivors, reports)
    if not wrong:
        shutil.rmtree(folder)
    rounds = [part for report in reports.values() for part in report["rounds"]]
    kinds = sum((Counter(part["kinds"]) for part in rounds), Counter())
    return {"seed": trial.seed, "trial": trial.describe(), "found": wrong,
            "seconds": round(time.monotonic() - begun, 1),
            "results": sum(part["checked"] for part in rounds),
            "planned_iterations": sum(part["planned"] for part in rounds), "kinds": kinds}


def soak(arguments: argparse.Namespace, chosen: Iterator[Trial | InputTrial],
         console: Console) -> list[dict]:
    """The trials that went wrong; all that have ended are in the file."""
    folder = arguments.json.absolute().with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 60 * arguments.minutes
    wrong, ended, results, iterations, kinds = [], 0, 0, 0, Counter()
    with arguments.json.open("w") as file, Progress(
            TimeElapsedColumn(), BarColumn(), TextColumn("{task.description}"),
            console=console, transient=True) as progress:
        bar = progress.add_task("", total=60 * arguments.minutes)
        for trial in chosen:
            progress.update(
                bar, completed=60 * arguments.minutes - (deadline - time.monotonic()),
                description=f"{ended} trials, {results} results, {len(wrong)} went wrong")
            console.print(f"[bold]{trial.seed}[/] {escape(trial.describe())}", soft_wrap=True)
            outcome = perform(trial, folder / str(trial.seed))
            file.write(json.dumps(outcome) + "\n")
            file.flush()
            ended, results = ended + 1, results + outcome["results"]
            iterations += outcome["planned_iterations"]
            kinds.update(outcome.get("kinds", {}))
            if outcome["found"]:
                wrong.append(outcome)
                _show(outcome, arguments, folder, console)
            if arguments.replay is not None or time.monotonic() > deadline:
                break
    console.print(f"{ended} trials, {results} results compared, {iterations} planned iterations")
    if kinds:
        console.print("of them, on all ranks together: " + ", ".join(
            f"{number} {kind}" for kind, number in sorted(kinds.items())))
    return wrong


def _show(outcome: dict, arguments: argparse.Namespace, folder: Path, console: Console) -> None:
    for problem in outcome["found"]:
        console.print(f"  [red]{escape(problem)}[/]", soft_wrap=True)
    console.print(f"  see {folder / str(outcome['seed'])}; again: "
                  f"{_replay(outcome['seed'], arguments)}",
                  soft_wrap=True)


def _replay(seed: int | str, arguments: argparse.Namespace) -> str:
    kind = "--groups " * arguments.groups + "--input " * arguments.input
    if arguments.kinds != list(DEFAULT_KINDS):
        kind += f"--kinds {shlex.quote(','.join(arguments.kinds))} "
    return f"make soak SOAK_ARGS={shlex.quote(f'{kind}--replay {seed}')}"


def choose_trials(arguments: argparse.Namespace) -> Iterator[Trial | InputTrial]:
    """Raises Unusable if this Horovod cannot run them."""
    frameworks, controllers = built()
    if arguments.input:
        if not {"torch", "tensorflow"} <= {*frameworks}:
            raise Unusable("trials of the input side need PyTorch and TensorFlow")
        first = arguments.seed if arguments.replay is None else arguments.replay
        return (input_trials.trial((first + number) % SEEDS) for number in count())
    if arguments.replay is None:
        return trials_from(arguments, frameworks, controllers)
    chosen = trial(arguments.replay, arguments.groups, arguments.kinds)
    if chosen.framework not in frameworks or chosen.controller not in controllers:
        raise Unusable(f"this Horovod was built without what the trial needs: {chosen.framework}, "
                       f"{chosen.controller}")
    return iter([chosen])


def main() -> int:
    arguments = parse_arguments()
    if arguments.runs is not None:
        return simulate(arguments.runs)
    console = Console(highlight=False)
    try:
        chosen = choose_trials(arguments)
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if arguments.replay is None:
        console.print(f"--seed {arguments.seed}; any trial again, by its own seed: "
                      f"{_replay('SEED', arguments)}")
    try:
        with end_as_by_ctrl_c():
            wrong = soak(arguments, chosen, console)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        console.print(f"interrupted; what has ended is in {arguments.json}")
        return INTERRUPTED
    if wrong:
        console.print("went wrong: " + ", ".join(str(outcome["seed"]) for outcome in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
