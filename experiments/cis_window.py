"""While networks are trained in topo: when the first gradient is there, and what planning took.

Before the first gradient is there, ranks compute and read their input, and nothing can be sent. The
source calls that part of a step the CIS window, and what is read and planned before a graph first
runs its traversal. Its percentages are of a training on ImageNet with 12,288 GPUs; here they are of
one epoch with the ranks of this machine. The buckets are those that mode topo used in the end. The
window is the forward pass here; in the source, where XLA lets nothing overlap (6.2.1), sending
begins later in a step.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from study import IMAGES, Study, record

from graph_analysis.palette import BLUE, GREY
from horovod_lab.bench.training.jobs import SMALLEST
from horovod_lab.bench.training.run_job import make_images
from horovod_lab.bench.worker_job import Series, run
from horovod_lab.measuring import documents, launch
from horovod_lab.measuring.literature import (
    CIS_WINDOW,
    CIS_WINDOW_SHARE,
    IMAGENET_IMAGES,
    TABLE_6_1,
    TRAVERSAL_PERCENT,
)
from horovod_lab.measuring.present import Grid, Picture, Section, number
from horovod_lab.report.source import Beside
from horovod_opt.arguments import positive, some_of

FILE = "cis-window"


class RealRuns:
    passes_on = ""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--only", type=some_of(TABLE_6_1), default=list(TABLE_6_1),
                            metavar="NAMES",
                            help="networks, separated by commas (all of Table 6.1)")
        parser.add_argument("--ranks", type=positive, default=2, metavar="N", help="(%(default)s)")
        parser.add_argument("--pixels", type=positive, default=96, metavar="N",
                            help="height and width of the images (%(default)s)")
        parser.add_argument("--batch", type=positive, default=4, metavar="N",
                            help="images a rank and step (%(default)s)")
        parser.add_argument("--seconds", type=positive, default=10, metavar="S",
                            help="measured in each job (%(default)s)")
        parser.add_argument("--timeout", type=positive, default=900, metavar="S",
                            help="after which a job is killed (%(default)s)")

    def run(self, options: argparse.Namespace, further: Sequence[str], folder: Path) -> int:
        console = Console(stderr=True)
        too_small = [name for name in options.only if options.pixels < SMALLEST.get(name, 0)]
        if too_small:
            console.print(f"{', '.join(too_small)}: {options.pixels} pixels are too few; remedy: "
                          f"--pixels {max(SMALLEST[name] for name in too_small)}")
            return 2
        document = documents.new("cis-window", ["python", "experiments/cis_window.py"])
        document |= {"ranks": options.ranks, "pixels": options.pixels, "batch": options.batch,
                     "networks": []}

        def measure_all(console: Console) -> None:
            make_images(IMAGES)
            for name in options.only:
                try:
                    row = measure(name, options)
                except launch.JobFailed as failure:
                    raise launch.JobFailed(f"{name}: {failure}") from failure
                document["networks"].append(row)
                console.print(f"{name}: the first gradient after {100 * row['window']:.0f} % "
                              f"of a step, planned in {1e3 * row['plan_seconds']:.0f} ms")

        try:
            return record(measure_all, document, folder / f"{FILE}.json", section)
        except launch.JobFailed as failure:
            console.print(str(failure))
            return 2


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """On real input. Times are means over the ranks."""
    result = run(Series("topo", "topo"), [
        "train_cis_window.py", "--model", name, "--pixels", str(options.pixels), "--threads", "1",
        "--batch", str(options.batch), "--seconds", str(options.seconds),
        "--images", str(IMAGES)], options.ranks, options.timeout)
    metrics, per_rank = result["metrics"], result["per_rank"]

    def mean(name: str) -> float:
        return statistics.fmean(per_rank[name])

    buckets, = {tuple(of_rank) for of_rank in per_rank["buckets"]}
    return {"network": name, "nodes": per_rank["nodes"][0], "edges": per_rank["edges"][0],
            "buckets": list(buckets), "images_per_second": metrics["images_per_second"],
            "step_seconds": metrics["step_seconds"],
            "window": mean("first_gradient_seconds") / metrics["step_seconds"],
            "read_seconds": mean("read_seconds"), "analyse_seconds": mean("analyse_seconds"),
            "plan_seconds": mean("read_seconds") + mean("analyse_seconds")}


def of_an_epoch(row: dict[str, Any]) -> float:
    """The share of planning in one epoch on ImageNet, with planning."""
    epoch = IMAGENET_IMAGES / row["images_per_second"]
    return row["plan_seconds"] / (epoch + row["plan_seconds"])


def section(document: dict[str, Any]) -> Section:
    rows = document["networks"]
    return Section(
        STUDY.title, STUDY.description,
        [Grid("Networks in training", (
            "network", "images/s", "ms a step", "first gradient, % of a step", "nodes", "edges",
            "buckets", "read ms", "analyse ms", "% of an epoch"), [
            (row["network"], number(row["images_per_second"]), number(1e3 * row["step_seconds"]),
             f"{100 * row['window']:.0f}", f"{row['nodes']:,}", f"{row['edges']:,}",
             "+".join(map(str, row["buckets"])), f"{1e3 * row['read_seconds']:.0f}",
             f"{1e3 * row['analyse_seconds']:.0f}", f"{100 * of_an_epoch(row):.1g}")
            for row in rows],
            f"{document['ranks']} ranks of batch {document['batch']}, {document['pixels']} pixels, "
            "real input")],
        [picture(document)])


def picture(document: dict[str, Any]) -> Picture:
    rows = document["networks"]
    figure = Figure(figsize=(8.0, 1.2 + 0.36 * len(rows)), layout="constrained")
    axis = figure.subplots()
    for place, row in enumerate(rows):
        if row["network"] in CIS_WINDOW:
            axis.plot([100 * CIS_WINDOW[row["network"]]], [place], "s", color=GREY, markersize=7)
        axis.plot([100 * row["window"]], [place], "o", color=BLUE, markersize=8)
    axis.plot([], [], "s", color=GREY, label="source, on GPUs")
    axis.plot([], [], "o", color=BLUE, label="here")
    axis.set(xlim=(0, 100), xlabel="% of a step before the first gradient is there")
    axis.set_yticks(range(len(rows)), [row["network"] for row in rows])
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    return Picture(FILE, STUDY.title, "Chapter 6.4.2 of the source.", figure)


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    rows = [(document, row) for document in documents for row in document["networks"]]
    return [
        *(Beside(CIS_WINDOW_SHARE[row["network"]], row["window"],
                 f"{document['ranks']} ranks, real input")
          for document, row in rows if row["network"] in CIS_WINDOW_SHARE),
        *(Beside(TRAVERSAL_PERCENT[row["network"]], of_an_epoch(row),
                 f"{row['nodes']:,} nodes, {1e3 * row['plan_seconds']:.0f} ms, "
                 f"{sum(row['buckets'])} buckets") for _, row in rows)]


STUDY = Study(
    name="cis_window", text=__doc__, repeats=("Table 6.1, p. 139", "Chapter 6.4.2"),
    measurement=RealRuns(), compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
