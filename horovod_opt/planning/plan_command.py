"""`horovod-opt plan`: which tensors a script or a saved graph reduces together, in which order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from rich.console import Console
from rich.markup import escape

from graph_analysis import (
    Analysis,
    GraphError,
    Plan,
    PlanError,
    Region,
    analyze,
    read_dict,
    read_graph_def,
)
from graph_analysis.draw import draw as draw_analysis
from graph_analysis.plan import kinds
from graph_analysis.plan_views import plan_table
from horovod_opt.launcher.built import explain_absence
from horovod_opt.planning import plan_folder
from horovod_opt.planning.planner import bucket_limits
from horovod_opt.settings import SettingsError

QUIET_SECONDS = 5.0  # without another sign after the first: the script has shown what it does


class CommandError(Exception):
    """What the user has to change; the text says it."""


class Job(NamedTuple):
    """How to run a script: on so many ranks with these arguments. `train`: beyond its first step,
    until it has shown nothing new for a while."""

    ranks: int = 2
    arguments: Sequence[str] = ()
    train: bool = False

    def warning(self, path: Path) -> str:
        run = f"{path} is run on {self.ranks} rank{'s' * (self.ranks != 1)}"
        if self.train:
            return (f"{run} and trains until it has shown no new plan for {QUIET_SECONDS:g} s; it "
                    "may overwrite its checkpoints.")
        return (f"{run} and ended before its first planned step. What it does until then is done; "
                "if nothing in it can be planned, it runs to its end and may overwrite its "
                "checkpoints.")


def regions_of(path: Path, fetches: Sequence[str] = (), threshold: Optional[int] = None,
               job: Job = Job()) -> list[Region]:
    """Those of a graph in a file, or of all graphs that a Python script makes as `job`.

    `threshold` in bytes; by default what a job with this environment would have. Raises
    CommandError if there is nothing that can be read."""
    if not path.exists():
        raise CommandError(f"there is no {path}")
    try:
        if path.suffix == ".py":
            return _of_script(path, threshold, job)
        return list(_of_file(path, fetches, threshold or bucket_limits()))
    except (GraphError, PlanError) as error:
        raise CommandError(f"{path}: {error}") from error
    except SettingsError as error:
        raise CommandError(str(error)) from error


def _of_file(path: Path, fetches: Sequence[str], threshold: int) -> Sequence[Region]:
    if path.suffix != ".json":
        graph = read_graph_def(path, fetches or None)
    else:
        try:
            text = path.read_text()
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CommandError(f"{path} is not JSON: {error}") from error
        if not isinstance(content, dict):
            raise CommandError(f"{path} holds neither a plan nor a graph")
        if "buckets" in content:
            plan = Plan.from_json(text)
            return [Region(plan.name, plan, plan.unplanned, "")]
        graph = read_dict(content)
    return analyze(graph, threshold, {"HorovodSize": 2, "HorovodProcessSetIncluded": 1}).regions


def _of_script(path: Path, threshold: Optional[int], job: Job) -> list[Region]:
    """Starts a job that writes its plans to a folder, and ends it when no more come."""
    absence = explain_absence(f"running {path}")
    if absence:
        raise CommandError(absence)
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name), Path(name) / "output.txt"
        environment = {**os.environ, "HOROVOD_OPT_MODE": "topo", plan_folder.PLANS: name,
                       plan_folder.STOP: str(int(not job.train))}
        if threshold:
            environment["HOROVOD_FUSION_THRESHOLD"] = str(threshold)
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "horovod.runner.launch", "-np", str(job.ranks),
                 sys.executable, str(path), *job.arguments],
                env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True)
            try:
                _wait_for_plans(process, folder, job)
            finally:
                plan_folder.kill(folder)
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)
                    process.wait()
        regions = [plan_folder.read_region(file) for file in sorted(folder.glob("*.json"))]
        if not regions:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise CommandError(
                f"{path} made no graph with collectives. It ended with exit status "
                f"{process.returncode} and this output:\n{tail}")
    return regions


def _wait_for_plans(process: subprocess.Popen, folder: Path, job: Job) -> None:
    """Until the job has ended, every rank has stopped, or nothing has come for a while after the
    first sign: plans if it trains, otherwise ranks that have stopped."""
    signs, since = 0, time.monotonic()
    while process.poll() is None:
        count = len(list(folder.glob("*.json"))) if job.train else plan_folder.count_stopped(folder)
        if count > signs:
            signs, since = count, time.monotonic()
        if signs and time.monotonic() - since > QUIET_SECONDS:
            return
        if signs == job.ranks and not job.train:
            return
        time.sleep(0.1)


def show(regions: Sequence[Region], in_words: bool, console: Console) -> None:
    """One table, or a text, for each region."""
    for region in regions:
        if region.plan is None:
            console.print(escape(f"{region.name}: {region.reason}"))
            for ids, tensors, reason in kinds(region.unplanned):
                console.print(escape(f"  {ids}  {tensors}: negotiated, {reason}"))
        elif in_words:
            console.print(escape(region.plan.explain()))
        else:
            console.print(plan_table(region.plan))


def draw(regions: Sequence[Region], file: Path) -> None:
    """A picture of all plans; .svg, .png or .pdf. Raises ImportError without matplotlib."""
    draw_analysis(Analysis(tuple(regions), (), 0, 0), file)
