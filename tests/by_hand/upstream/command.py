"""Runs upstream's own test suites with the Horovod installed for this Python, in several modes.

    python tests/by_hand/upstream/run PATH --modes off,topo --suites tensorflow,torch
    python tests/by_hand/upstream/run PATH --plain other/bin/python --json results.json

PATH is a checkout of Horovod's repository, v0.28.1. The reference is a plain build (--plain) and
mode off. Exit status 1 if a test that passes in a reference does not in a mode, 2 if nothing can be
run, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bfloat16 import RULES, copy_with_bfloat16
from environment import Unusable, check_checkout, examine
from launch import Column, Job
from outcomes import everywhere, regressions
from report import cell, show
from results import Results
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from suites import SUITES

from horovod_lab.measuring.launch import end_as_by_ctrl_c
from horovod_opt.arguments import INTERRUPTED, positive, some_of
from horovod_opt.settings import SettingsError, load

PLAIN, OFF = "plain", "off"
# Of upstream's tests themselves.
NEEDS, INSTALL = ("pytest", "mock", "parameterized"), "{python} -m pip install {missing}"
WIDTH = 140  # characters, where the output is no terminal


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/upstream/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, metavar="PATH", help="checkout of upstream's repository")
    parser.add_argument("--modes", type=parse_modes, default="off,gs,nbcs,gs+nbcs,topo",
                        help="HOROVOD_OPT_MODE of each column (%(default)s)")
    names = [suite.name for suite in SUITES]
    parser.add_argument("--suites", type=some_of(names), default=names,
                        help=f"some of {', '.join(names)}")
    parser.add_argument("--ranks", type=_ranks, default="2",
                        help="numbers of ranks, as in 2,3 (%(default)s)")
    parser.add_argument("--controller", choices=("mpi", "gloo"), default="mpi",
                        help="(%(default)s)")
    parser.add_argument("--bfloat16", action="store_true",
                        help="tests of operations try bfloat16, too, but not those of --plain")
    parser.add_argument("--plain", metavar="PYTHON",
                        help="also run the unpatched Horovod of this Python's environment")
    parser.add_argument("--timeout", type=positive, metavar="SECONDS",
                        help="for every suite; without it, each has its own")
    parser.add_argument("--json", type=Path, default=Path("build/upstream-tests.json"),
                        metavar="FILE", help="results; the ranks' output and junit XML go to a "
                        "folder of that name without its ending (%(default)s)")
    parser.add_argument("--resume", action="store_true",
                        help="do not run again what FILE has results of")
    arguments = parser.parse_args(argv)
    if not arguments.plain and OFF not in arguments.modes:
        parser.error(f"nothing to compare with: add {OFF} to --modes, or give --plain")
    return arguments


def parse_modes(text: str) -> list[str]:
    try:
        return list(dict.fromkeys(load({"HOROVOD_OPT_MODE": mode}).mode
                                  for mode in text.split(",")))
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _ranks(text: str) -> list[int]:
    return list(dict.fromkeys(map(positive, text.split(","))))


def run_all(jobs: list[Job], results: Results, timeout: int | None, console: Console) -> None:
    with Progress(SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"),
                  console=console, transient=True) as progress:
        whole = progress.add_task("")
        for number, job in enumerate(jobs, 1):
            name = f"{job.column.name} {job.suite.name}"
            begun = f"job {number} of {len(jobs)}: {name}"
            run = job.run(results.path.with_suffix("") / job.column.name / job.suite.name,
                          timeout or job.suite.seconds,
                          lambda done, begun=begun: progress.update(
                              whole, description=f"{begun}, {done} tests"))
            results.add(job.column.name, job.suite.name, run)
            progress.console.print(f"{name}:", cell(run), f" {run.seconds:g} s", run.cut)


def main() -> int:
    arguments = parse_arguments()
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    try:
        checkout = check_checkout(arguments.path)
        about = {"controller": arguments.controller, "bfloat16": arguments.bfloat16,
                 "versions": examine(sys.executable, NEEDS, INSTALL, patched=True)}
        builds = [(mode, sys.executable, mode) for mode in arguments.modes]
        if arguments.plain:
            plain = str(Path(arguments.plain).absolute())
            about["plain"] = examine(plain, NEEDS, INSTALL, patched=False)
            builds.insert(0, (PLAIN, plain, None))
        results = Results(arguments.json.absolute(), about, arguments.resume)
        tests = {suite.name: checkout for suite in SUITES}
        if arguments.bfloat16:
            copy = copy_with_bfloat16(checkout, results.path.with_suffix("") / "bfloat16")
            tests.update({suite.name: copy for suite in SUITES if suite.file in RULES})
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    columns = [Column(f"{name}-{ranks}", python, mode, ranks)
               for ranks in arguments.ranks for name, python, mode in builds]
    jobs = [Job(suite, column, (tests[suite.name] if column.mode else checkout) / "test",
                arguments.controller)
            for column in columns for suite in SUITES if suite.name in arguments.suites
            if suite.launched or column.ranks == arguments.ranks[0]  # else ranks mean nothing to it
            if not (arguments.resume and results.has(column.name, suite.name))]
    try:
        with end_as_by_ctrl_c():
            run_all(jobs, results, arguments.timeout, console)
    except KeyboardInterrupt:
        console.print(f"interrupted; --resume goes on with what {arguments.json} has")
        return INTERRUPTED
    worse = []
    for ranks in arguments.ranks:
        alike = results.select([column.name for column in columns if column.ranks == ranks],
                               arguments.suites)
        references = [f"{name}-{ranks}" for name in (PLAIN, OFF)]
        worse += regressions(alike, [name for name in references if name in alike])
    runs = results.select([column.name for column in columns], arguments.suites)
    show(console, runs, worse, everywhere(runs))
    return 1 if worse else 0
