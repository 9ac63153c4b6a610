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
from graph_analysis.table import plan_table
from horovod_opt.planner import BUCKET_BYTES
from horovod_opt.region_file import read_region

DEFAULT_THRESHOLD = BUCKET_BYTES
QUIET_SECONDS = 5.0  # without a new plan after the first: the script has shown what it does


class CommandError(Exception):
    """What the user has to change; the text says it."""


def regions_of(path: Path, fetches: Sequence[str], threshold: int, arguments: Sequence[str],
               ranks: int) -> list[Region]:
    """Those of a graph in a file, or of all graphs that a Python script makes on `ranks` ranks.

    `threshold` in bytes. Raises CommandError if there is nothing that can be read."""
    if not path.exists():
        raise CommandError(f"there is no {path}")
    try:
        if path.suffix == ".py":
            return _of_script(path, arguments, ranks)
        return list(_of_file(path, fetches, threshold))
    except (GraphError, PlanError) as error:
        raise CommandError(f"{path}: {error}") from error


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


def _of_script(path: Path, arguments: Sequence[str], ranks: int) -> list[Region]:
    """Starts a job that writes its plans to a folder, and ends it when no more come."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "output.txt"
        with log.open("w") as output:
            job = subprocess.Popen(
                [sys.executable, "-m", "horovod.runner.launch", "-np", str(ranks),
                 sys.executable, str(path), *arguments],
                env={**os.environ, "HOROVOD_OPT_MODE": "topo", "HOROVOD_OPT_PLANS": folder},
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True)
            try:
                _wait_for_plans(job, Path(folder))
            finally:
                if job.poll() is None:
                    os.killpg(job.pid, signal.SIGTERM)
                    job.wait()
        regions = [read_region(file) for file in sorted(Path(folder).glob("*.json"))]
        if not regions:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise CommandError(
                f"{path} made no graph with collectives. It ended with exit status "
                f"{job.returncode} and this output:\n{tail}")
    return regions


def _wait_for_plans(job: subprocess.Popen, folder: Path) -> None:
    found, since = 0, time.monotonic()
    while job.poll() is None:
        now = len(list(folder.glob("*.json")))
        if now > found:
            found, since = now, time.monotonic()
        if found and time.monotonic() - since > QUIET_SECONDS:
            return
        time.sleep(0.1)


def show(regions: Sequence[Region], in_words: bool, console: Console) -> None:
    """One table, or a text, for each region."""
    for region in regions:
        if region.plan is None:
            console.print(escape(f"{region.name}: {region.reason}"))
            for name, reason in region.unplanned:
                console.print(escape(f"  {name}: negotiated, {reason}"))
        elif in_words:
            console.print(escape(region.plan.explain()))
        else:
            console.print(plan_table(region.plan))


def draw(regions: Sequence[Region], file: Path) -> None:
    """A picture of all plans; .svg, .png or .pdf. Raises ImportError without matplotlib."""
    draw_analysis(Analysis(tuple(regions), (), 0, 0), file)
