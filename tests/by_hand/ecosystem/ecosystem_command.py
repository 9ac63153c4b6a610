"""Runs jobs on Ray and Spark, and upstream's tests of both, in every mode.

    tests/by_hand/ecosystem/run [PATH]
    tests/by_hand/ecosystem/run PATH --modes off,topo --suites ray,test_spark

PATH is a checkout of Horovod's repository, v0.28.1; without it, only our own jobs run. The jobs
train with PyTorch and TensorFlow, and must end with the weights that horovodrun gives in mode off.
Upstream's tests are compared with mode off. Exit status 1 if a job fails, or a test that passes in
mode off fails in a mode; 2 if nothing can be run; 130 if interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bfloat16 import copy_changed
from command import OFF, WIDTH, parse_modes, run_all
from ecosystem_suites import CHANGES, HERE, JOBS, UPSTREAM
from environment import Unusable, check_checkout, examine
from launch import HOROVODRUN, Column, Job
from outcomes import Failure, everywhere, regressions
from report import show
from results import Results
from rich.console import Console

from horovod_lab.measuring.launch import end_as_by_ctrl_c
from horovod_opt.arguments import INTERRUPTED, some_of

PACKAGES = HERE / "packages.txt"
NEEDS = [line.partition("==")[0].replace("-", "_") for line in PACKAGES.read_text().splitlines()
         if not line.startswith("#")]
INSTALL = f"{{python}} -m pip install --requirement {PACKAGES}"
RANKS = 2
REFERENCE_SECONDS = 200


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    names = [suite.name for suite in (*JOBS, *UPSTREAM)]
    parser = argparse.ArgumentParser(
        prog="tests/by_hand/ecosystem/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, nargs="?", metavar="PATH",
                        help="checkout of upstream's repository")
    parser.add_argument("--modes", type=parse_modes, default="off,gs,nbcs,scp,topo,auto",
                        help="HOROVOD_OPT_MODE of each column (%(default)s)")
    parser.add_argument("--suites", type=some_of(names), default=names,
                        help=f"some of {', '.join(names)}")
    parser.add_argument("--json", type=Path, default=Path("build/ecosystem.json"), metavar="FILE",
                        help="results; what jobs printed goes to a folder of that name without its "
                        "ending (%(default)s)")
    parser.add_argument("--resume", action="store_true",
                        help="do not run again what FILE has results of")
    return parser.parse_args(argv)


def check_java() -> None:
    """Raises Unusable, which says how to get it, where Spark would find no Java."""
    if not os.environ.get("JAVA_HOME") and not shutil.which("java"):
        raise Unusable("Spark needs Java: apt-get install default-jre-headless, or set JAVA_HOME")


def make_references(folder: Path) -> None:
    """What horovodrun gives in mode off: FRAMEWORK-RANKS.json in `folder`, where it is missing.

    Raises:
        Unusable: a job failed; with its output.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for framework in ("torch", "tensorflow"):
        for ranks in range(1, RANKS + 1):
            file = folder / f"{framework}-{ranks}.json"
            if file.exists():
                continue
            column = Column("reference", sys.executable, OFF, ranks)
            job = subprocess.run(
                [sys.executable, HOROVODRUN, "-np", str(ranks), sys.executable,
                 HERE / "ray_spark" / "digits_training.py", framework, file],
                env={**column.environ(), **JOBS[0].environment}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=REFERENCE_SECONDS)
            if job.returncode or not file.exists():
                raise Unusable(f"horovodrun -np {ranks} in mode off fails:\n{job.stdout}")


def failed_jobs(runs: dict) -> list[Failure]:
    """What fails in our own jobs, in whichever mode."""
    own = {suite.name for suite in JOBS}
    return [Failure(suite, test, mode, f"{outcome.status}: {outcome.why}")
            for mode, by_suite in runs.items() for suite, run in by_suite.items() if suite in own
            for test, outcome in run.tests.items() if outcome.status == "failed"]


def main() -> int:
    arguments = parse_arguments()
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    folder = arguments.json.absolute().with_suffix("")
    try:
        check_java()
        about = {"versions": examine(sys.executable, NEEDS, INSTALL, patched=True)}
        checkout = None
        if arguments.path:
            checkout = copy_changed(check_checkout(arguments.path), folder / "upstream", CHANGES)
        results = Results(arguments.json.absolute(), about, arguments.resume)
        if not arguments.resume:
            shutil.rmtree(folder / "references", ignore_errors=True)
        make_references(folder / "references")
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    os.environ["ECOSYSTEM_REFERENCES"] = str(folder / "references")
    columns = [Column(mode, sys.executable, mode, RANKS) for mode in arguments.modes]
    suites = [(suite, HERE / "ray_spark") for suite in JOBS]
    if checkout:
        suites += [(suite, checkout / "test") for suite in UPSTREAM]
    jobs = [Job(suite, column, tests, "gloo") for column in columns for suite, tests in suites
            if suite.name in arguments.suites
            if not (arguments.resume and results.has(column.name, suite.name))]
    try:
        with end_as_by_ctrl_c():
            run_all(jobs, results, None, console)
    except KeyboardInterrupt:
        console.print(f"interrupted; --resume goes on with what {arguments.json} has")
        return INTERRUPTED
    runs = results.select(arguments.modes, arguments.suites)
    theirs = {mode: {name: run for name, run in by_suite.items()
                     if name in {suite.name for suite in UPSTREAM}}
              for mode, by_suite in runs.items()}
    failed = failed_jobs(runs)
    worse = failed + (regressions(theirs, [OFF]) if OFF in theirs else [])
    show(console, runs, worse, everywhere(theirs))
    console.print(json.dumps(about["versions"]))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
