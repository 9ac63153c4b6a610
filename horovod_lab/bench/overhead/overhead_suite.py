"""The suite overhead: what the background thread costs in each mode; docs/lab/benchmark.md."""

from __future__ import annotations

import argparse
import statistics
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from horovod_lab.bench import worker_job
from horovod_lab.bench.overhead import results
from horovod_lab.bench.overhead.overhead_pictures import section
from horovod_lab.bench.overhead.workloads import PROGRAMS, SECONDS, jobs
from horovod_lab.bench.worker_job import Series
from horovod_lab.measuring import documents, launch
from horovod_lab.measuring.present import show
from horovod_opt.arguments import INTERRUPTED


def measure(workload: str, ranks: int, series: Series, options: argparse.Namespace) -> dict:
    """One measurement: the job's result, or the reason why there is none."""
    seconds = SECONDS[workload] / (2 if options.quick else 1)
    start = time.monotonic()
    try:
        result = worker_job.run(series, [*PROGRAMS[workload], "--seconds", str(seconds)], ranks,
                                options.timeout)
        result["metrics"]["memory_mib"] = statistics.mean(result["per_rank"]["memory_mib"])
    except launch.JobFailed as failure:
        result = {"failed": str(failure)}
    return {**result, "workload": workload, "ranks": ranks, "series": series.name,
            "job_seconds": round(time.monotonic() - start, 1)}


def outcome(measurement: dict) -> str:
    if "failed" in measurement:
        return f"failed: {measurement['failed']}"
    return "  ".join(
        f"{measurement['metrics'][metric.key]:.4g} {metric.unit}"
        for metric in results.METRICS if metric.workload == measurement["workload"])


def run(options: argparse.Namespace) -> int:
    options.output.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    document = documents.new("overhead", ["horovod-opt"])
    document["measurements"] = []
    about = document["machine"]
    if about["load"] > 0.5:
        console.print(f"This machine is busy (load {about['load']:.1f}): expect a large spread.")
    todo = jobs(options, about["cores"])
    rounds = 1 + max(number for number, *_ in todo)
    status = 0
    progress = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                        TimeRemainingColumn(), console=console, disable=not console.is_terminal)
    try:
        with progress:
            task = progress.add_task("", total=len(todo))
            for number, workload, ranks, series in todo:
                heading = f"round {number + 1}/{rounds}  {workload}  {ranks} ranks  {series.name}"
                progress.update(task, description=heading)
                measurement = {"round": number, **measure(workload, ranks, series, options)}
                document["measurements"].append(measurement)
                document["summary"] = results.summary(document["measurements"])
                documents.save(options.output / "overhead.json", document)
                console.print(f"{heading}  {outcome(measurement)}", highlight=False, markup=False,
                              soft_wrap=True)
                progress.advance(task)
    except KeyboardInterrupt:
        console.print("Interrupted: this is what was measured until then.")
        status = INTERRUPTED
    measurements = document["measurements"]
    if measurements:
        console.print(f"Written: {options.output / 'overhead.json'}")
        show(section(document), options.output)
    failed = sum("failed" in measurement for measurement in measurements)
    if failed:
        console.print(f"{failed} of {len(measurements)} jobs failed.")
        status = status or 2
    return status
