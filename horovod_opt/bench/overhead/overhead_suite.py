"""What does Horovod's background thread cost, in each mode? See docs/benchmark.md.

    python -m horovod_opt.bench.overhead --quick
    python -m horovod_opt.bench.overhead --only resnet50 --modes off,nbcs --rounds 10
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from horovod_opt.arguments import INTERRUPTED, positive
from horovod_opt.bench.overhead import table
from horovod_opt.bench.overhead.section import section
from horovod_opt.bench.worker_job import BASE, LIMIT, Series, run
from horovod_opt.measuring import documents, launch
from horovod_opt.measuring.comparison import interleave
from horovod_opt.measuring.present import show

# Seconds measured in a job, beside those it takes to start.
SECONDS = {"idle": 3.0, "chain": 3.0, "small": 3.0, "resnet50": 6.0, "resnet50_torch": 6.0}
TRAINING = ("resnet50", "resnet50_torch")
# One intra-op thread leaves a rank no second one to hide the background thread's CPU use behind.
RESNET50 = ("--model", "ResNet50", "--batch", "4", "--pixels", "96", "--threads", "1")
PROGRAMS = {"resnet50": ("train.py", *RESNET50), "resnet50_torch": ("train_torch.py", *RESNET50)}
# What else trains a workload on several ranks.
PEERS = {"resnet50_torch": (
    Series("DDP", communicates=False, arguments=("--ddp",)),
    Series("DDP, static graph", communicates=False, arguments=("--ddp", "--static-graph")),
)}
MODES = "off,gs,nbcs,topo,scp,topo+scp"


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m horovod_opt.bench.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("--modes", type=_names, default=MODES,
                        help="what to compare with off (%(default)s); scp is left out where a rank "
                             "has one core")
    parser.add_argument("--only", type=_workloads, default=",".join(SECONDS),
                        help="workloads to run (%(default)s)")
    parser.add_argument("--ranks", type=positive, nargs="+", default=[2, 4],
                        help="ranks that train ResNet50 (2 4); other workloads run with the first")
    parser.add_argument("--rounds", type=positive, default=3,
                        help="how often each job is run (%(default)s)")
    parser.add_argument("--quick", action="store_true",
                        help="one round of half the length, with the first of --ranks")
    parser.add_argument("--timeout", type=positive, default=300,
                        help="seconds after which a job is killed (%(default)s)")
    parser.add_argument("--plain", metavar="PYTHON", type=_python,
                        help="also measure the unpatched Horovod of this Python's environment")
    parser.add_argument("--mpi-yield", action="store_true",
                        help="also measure off with Open MPI's mpi_yield_when_idle=1")
    parser.add_argument("--output", type=Path, default=Path("benchmark"),
                        help="directory for overhead.json and overhead.png (%(default)s)")
    arguments = parser.parse_args(argv)
    if arguments.quick:
        arguments.rounds, arguments.ranks = 1, arguments.ranks[:1]
    return arguments


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(text.split(",")))


def _workloads(text: str) -> list[str]:
    unknown = [name for name in _names(text) if name not in SECONDS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(SECONDS)}")
    return _names(text)


def _python(text: str) -> str:
    path = Path(text).absolute()
    if not os.access(path, os.X_OK) or not path.with_name("horovodrun").exists():
        raise argparse.ArgumentTypeError(f"{text} is no Python with a horovodrun beside it")
    return str(path)


def all_series(arguments: argparse.Namespace) -> list[Series]:
    series = [Series(LIMIT, communicates=False), Series(BASE)]
    series += [Series(mode, mode) for mode in arguments.modes if mode != BASE]
    if arguments.mpi_yield:
        series.append(Series("off, yielding", environment={
            "OMPI_MCA_mpi_yield_when_idle": "1"}))
    if arguments.plain:
        series.append(Series("plain upstream", mode=None, python=arguments.plain))
    return series


def jobs(arguments: argparse.Namespace, cores: int) -> list[tuple[int, str, int, Series]]:
    """(round, workload, ranks, series) in the order in which they run."""
    cells = [(workload, ranks) for workload in arguments.only
             for ranks in (arguments.ranks if workload in TRAINING else arguments.ranks[:1])]
    ordered = []
    for workload, ranks in cells:
        possible = [series for series in (*all_series(arguments), *PEERS.get(workload, ()))
                    if cores >= 2 * ranks or "scp" not in (series.mode or "").split("+")]
        ordered += [(number, workload, ranks, series)
                    for number, series in interleave(possible, arguments.rounds)]
    # By round first: an interrupted benchmark has then measured everything equally often.
    return sorted(ordered, key=lambda job: job[0])


def measure(workload: str, ranks: int, series: Series,
            arguments: argparse.Namespace) -> dict:
    """One measurement: the job's result, or the reason why there is none."""
    seconds = SECONDS[workload] / (2 if arguments.quick else 1)
    started = time.monotonic()
    try:
        program = PROGRAMS.get(workload, (f"{workload}.py",))
        result = run(series, [*program, "--seconds", str(seconds)], ranks, arguments.timeout)
        result["metrics"]["memory_mib"] = statistics.mean(result["per_rank"]["memory_mib"])
    except launch.JobFailed as failure:
        result = {"failed": str(failure)}
    return {**result, "workload": workload, "ranks": ranks, "series": series.name,
            "job_seconds": round(time.monotonic() - started, 1)}


def outcome(measurement: dict) -> str:
    if "failed" in measurement:
        return f"failed: {measurement['failed']}"
    return "  ".join(
        f"{measurement['metrics'][metric.key]:.4g} {metric.unit}"
        for metric in table.METRICS if metric.workload == measurement["workload"])


def main() -> int:
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    document = documents.new("overhead", ["python", "-m", "horovod_opt.bench.overhead"])
    document["measurements"] = []
    about = document["machine"]
    if about["load"] > 0.5:
        console.print(f"This machine is busy (load {about['load']:.1f}): expect a large spread.")
    todo = jobs(arguments, about["cores"])
    status = 0
    progress = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                        TimeRemainingColumn(), console=console, disable=not console.is_terminal)
    try:
        with progress:
            task = progress.add_task("", total=len(todo))
            for number, workload, ranks, series in todo:
                heading = (f"round {number + 1}/{arguments.rounds}  {workload}  {ranks} ranks  "
                           f"{series.name}")
                progress.update(task, description=heading)
                measurement = {"round": number, **measure(workload, ranks, series, arguments)}
                document["measurements"].append(measurement)
                document["summary"] = table.summary(document["measurements"])
                documents.save(arguments.output / "overhead.json", document)
                console.print(f"{heading}  {outcome(measurement)}", highlight=False, markup=False,
                              soft_wrap=True)
                progress.advance(task)
    except KeyboardInterrupt:
        console.print("Interrupted: this is what was measured until then.")
        status = INTERRUPTED
    measurements = document["measurements"]
    if measurements:
        console.print(f"Written: {arguments.output / 'overhead.json'}")
        show(section(document), arguments.output)
    failed = sum("failed" in measurement for measurement in measurements)
    if failed:
        console.print(f"{failed} of {len(measurements)} jobs failed.")
        status = status or 1
    return status
