"""Runs upstream's example scripts, unmodified, with the Horovod installed for this Python.

    python tests/by_hand/upstream/examples/run PATH --modes off,topo --only pytorch_mnist
    python tests/by_hand/upstream/examples/run PATH --tf-cnn-benchmarks ANOTHER

PATH is a checkout of Horovod's repository, v0.28.1. Exit status 1 if a script that runs in mode off
does not in a mode, 2 if nothing can be run, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import example_data
from command import OFF, WIDTH, parse_modes
from environment import Unusable, check_checkout, examine
from example_job import FAILED, STOPPED, TrainingRun, run
from example_scripts import EXAMPLES, Example
from launch import Column
from results import Results
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from horovod_lab.measuring.launch import end_as_by_ctrl_c
from horovod_opt.arguments import INTERRUPTED, positive, some_of

RANKS = 2
INSTALL = "docs/work/upstream-examples.md has the commands that install it"
TF_CNN = Path("scripts", "tf_cnn_benchmarks")


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    names = [example.name for example in EXAMPLES]
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/upstream/examples/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, metavar="PATH", help="checkout of upstream's repository")
    parser.add_argument("--modes", type=parse_modes, default="off,topo",
                        help="HOROVOD_OPT_MODE of each column (%(default)s)")
    parser.add_argument("--only", type=some_of(names), default=names, metavar="NAMES",
                        help=f"some of {', '.join(names)}")
    parser.add_argument("--tf-cnn-benchmarks", type=Path, metavar="CHECKOUT",
                        help="a checkout of tensorflow/benchmarks; without it, they are left out")
    parser.add_argument("--seconds", type=positive, default=60,
                        help="after which a script is ended that says how fast it is (%(default)s)")
    parser.add_argument("--json", type=Path, default=Path("build/upstream-examples.json"),
                        metavar="FILE", help="results; what the jobs printed goes to a folder of "
                        "that name without its ending (%(default)s)")
    parser.add_argument("--resume", action="store_true",
                        help="do not run again what FILE has results of")
    return parser.parse_args(argv)


def choose_examples(arguments: argparse.Namespace) -> list[tuple[Example, Path]]:
    """The examples with the folder that their scripts are below.

    Raises:
        Unusable: a checkout is not what it should be.
    """
    checkout = check_checkout(arguments.path)
    tf_cnn = arguments.tf_cnn_benchmarks and arguments.tf_cnn_benchmarks.absolute() / TF_CNN
    roots = [(example, tf_cnn if example.tf_cnn else checkout / "examples")
             for example in EXAMPLES if example.name in arguments.only]
    examples = [(example, root) for example, root in roots if root]
    if missing := [root / example.script for example, root in examples
                   if not (root / example.script).is_file()]:
        raise Unusable(f"there is no {missing[0]}")
    return examples


def cell(example: Example, trained: TrainingRun | None) -> Text:
    """How fast it trained, or how long it took where it does not say so."""
    if trained is None:
        return Text("-")
    if trained.status == FAILED:
        return Text(FAILED, style="red")
    if trained.rate is None:
        return Text(f"{trained.seconds:.0f} s")
    return Text(f"{trained.rate:.3g} {example.rate.unit}")


def show(console: Console, examples: list[Example],
         runs: dict[str, dict[str, TrainingRun]]) -> None:
    table = Table("script", *runs, title=f"{RANKS} ranks")
    for example in examples:
        table.add_row(example.name, *(cell(example, of_mode.get(example.name))
                                      for of_mode in runs.values()))
    console.print(table)
    for mode, of_mode in runs.items():
        for name, trained in of_mode.items():
            if trained.status == FAILED:
                console.print(Text(f"{name} [{mode}]: {trained.why}"), soft_wrap=True)


def worse(runs: dict[str, dict[str, TrainingRun]]) -> list[str]:
    """What runs in mode off and fails in another one: "script [mode]"."""
    run_in_off = [name for name, trained in runs.get(OFF, {}).items() if trained.status != FAILED]
    return [f"{name} [{mode}]" for mode, of_mode in runs.items() for name in run_in_off
            if name in of_mode and of_mode[name].status == FAILED]


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    folder = arguments.json.absolute().with_suffix("")
    try:
        examples = choose_examples(arguments)
        needs = sorted({name for example, _ in examples for name in example.needs})
        about = {"versions": examine(sys.executable, needs, INSTALL, patched=True)}
        results = Results(arguments.json.absolute(), about, arguments.resume, TrainingRun)
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    example_data.write(folder / "data")
    jobs = [(example, root, mode) for example, root in examples for mode in arguments.modes
            if not (arguments.resume and results.has(mode, example.name))]
    try:
        with end_as_by_ctrl_c(), Progress(
                SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"),
                console=console, transient=True) as progress:
            whole = progress.add_task("")
            for number, (example, root, mode) in enumerate(jobs, 1):
                progress.update(whole, description=f"job {number} of {len(jobs)}: "
                                f"{example.name}, {mode}")
                trained = run(example, Column(mode, sys.executable, mode, RANKS), root,
                              folder / "data", folder / mode / example.name.replace(" ", "_"),
                              arguments.seconds)
                results.add(mode, example.name, trained)
                ended = " (ended by us)" if trained.status == STOPPED else ""
                progress.console.print(f"{example.name}, {mode}:", cell(example, trained),
                                       f" {trained.seconds:g} s{ended}")
    except KeyboardInterrupt:
        console.print(f"interrupted; --resume goes on with what {arguments.json} has")
        return INTERRUPTED
    runs = results.select(arguments.modes, [example.name for example, _ in examples])
    show(console, [example for example, _ in examples], runs)
    if fewer := worse(runs):
        console.print(f"Run in mode off, and do not here: {', '.join(fewer)}")
    return 1 if fewer else 0
