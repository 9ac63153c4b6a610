"""What all experiments have in common: a study of the source, repeated and put beside it; and the
command `horovod-opt`, which they run.

Results lie in results/NAME/: the JSON files and pictures of the tools, and beside-the-source.png.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from matplotlib.figure import Figure
from rich.console import Console

from graph_analysis.palette import BLUE, GREY
from horovod_lab.bench.training.results import Row, rows
from horovod_lab.measuring import documents
from horovod_lab.measuring.launch import end_as_by_ctrl_c
from horovod_lab.measuring.present import Grid, Picture, Section, show
from horovod_lab.report.source import Beside
from horovod_opt.arguments import INTERRUPTED

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "build" / "images"  # the real input, made once for all experiments
# What two cores train in a few minutes; options that the user adds come later and count.
SMALL = ("--pixels", "96", "--batch", "4", "--threads", "1")
RESULTS = Path(__file__).parent / "results"
KINDS = ("bench", "nodes", "profile", "simulation", "traversal", "cis-window", "io-lmdb",
         "io-stream", "io-alexnet", "deepio", "fanstore")
PICTURE = "beside-the-source"
TERMINATED = 128 + signal.SIGTERM


class Measurement(Protocol):
    """What a study runs. `passes_on`: the command that takes the options that are not its own."""

    passes_on: str

    def add_options(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace, further: Sequence[str], folder: Path) -> int:
        """Leaves JSON files in the folder; returns an exit status."""


@dataclass(frozen=True)
class Study:
    """`name`: of its script and its results; `text`: the script's docstring, whose first line is
    the title; `repeats`: figures and tables of the source; `short`: part of `make experiments`;
    `needs`: options that it does not run without."""

    name: str
    text: str
    repeats: Sequence[str]
    measurement: Measurement
    compare: Callable[[Sequence[dict[str, Any]]], list[Beside]]
    short: bool = False
    needs: Sequence[str] = ()

    @property
    def title(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def description(self) -> str:
        return self.text.partition("\n")[2].strip()

    def main(self, arguments: Sequence[str] | None = None) -> int:
        options, further = self._parse(arguments)
        folder = options.output / self.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{PICTURE}.png").unlink(missing_ok=True)  # it says that the study is complete
        status = self.measurement.run(options, further, folder)
        if status:
            print(f"{self.name}: not complete, exit status {status}", file=sys.stderr)
            return status
        try:
            besides = self.compare(read(folder))
        except documents.DocumentError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            return 2
        if not besides:
            print(f"{self.name}: nothing was measured that the source has a number of",
                  file=sys.stderr)
            return 2
        show(Section(self.title, "", [table(self, besides)], [picture(self, besides)]), folder)
        return 0

    def _parse(self, arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
        passes_on = self.measurement.passes_on
        parser = argparse.ArgumentParser(
            prog=f"experiments/{self.name}.py", allow_abbrev=False,
            description=f"{self.title} Repeats {'; '.join(self.repeats)} of the source. "
                        f"{self.description}",
            epilog=f"All other options are passed on to {passes_on}; those that come last count, "
                   "and paths are seen from the project's folder." if passes_on else "")
        parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER",
                            help=f"for {self.name}/ with JSON files and pictures "
                                 "(experiments/results)")
        self.measurement.add_options(parser)
        options, further = parser.parse_known_args(arguments)
        if further and not passes_on:
            parser.error(f"unrecognized arguments: {' '.join(further)}")
        return options, further


def record(measure: Callable[[Console], None], document: dict[str, Any], path: Path,
           section: Callable[[dict[str, Any]], Section], seconds: str = "seconds",
           interrupted: str = "nothing is kept") -> int:
    """Has `measure` fill the document, says there in `seconds` how long that took, and keeps it
    with its section. Returns an exit status: that of Ctrl-C, by which nothing new is kept, or
    0."""
    console, start = Console(stderr=True), time.monotonic()
    try:
        with end_as_by_ctrl_c():
            measure(console)
    except KeyboardInterrupt:
        console.print(f"Interrupted: {interrupted}.")
        return INTERRUPTED
    document[seconds] = round(time.monotonic() - start, 1)
    documents.save(path, document)
    show(section(document), path.parent)
    return 0


def read(folder: Path) -> list[dict[str, Any]]:
    """All documents of a study. Raises DocumentError for one that cannot be used."""
    return [documents.load(path, *KINDS) for path in sorted(folder.rglob("*.json"))]


def whole_steps(documents: Sequence[dict[str, Any]]) -> list[Row]:
    """Of benchmarks, what was measured with gradients reduced while others are computed."""
    return [row for row in benchmark_rows(documents) if not row.cell.separate]


def benchmark_rows(documents: Sequence[dict[str, Any]]) -> list[Row]:
    return [row for document in documents for row in rows(document["measurements"])]


def table(study: Study, besides: Sequence[Beside]) -> Grid:
    return Grid(
        f"{study.title} Beside the source", ("", "source", "where in the source", "here", "at"),
        [(beside.reported.label, beside.reported.text(), beside.reported.where, here(beside),
          beside.at)
         for beside in besides])


def here(beside: Beside) -> str:
    return beside.reported.show(beside.here) + (" (fitted)" if beside.fitted else "")


def picture(study: Study, besides: Sequence[Beside]) -> Picture:
    """A line for each number: the source's as a square, or a bar for a range, and ours as a dot."""
    figure = Figure(figsize=(8.0, 1.4 + 0.36 * len(besides)), layout="constrained")
    axis = figure.subplots()
    values = []
    for place, beside in enumerate(besides):
        low, high, here_value = (beside.reported.scale * value
                                 for value in (*beside.reported.bounds, beside.here))
        axis.plot([low, high], [place, place], "s-", color=GREY, markersize=7, linewidth=5,
                  label="source" if not place else None)
        axis.plot([here_value], [place], "o", color=BLUE, markersize=8,
                  markerfacecolor="white" if beside.fitted else BLUE)
        values += [low, high, here_value]
    for is_fitted in sorted({beside.fitted for beside in besides}):
        axis.plot([], [], "o", color=BLUE, markerfacecolor="white" if is_fitted else BLUE,
                  label="here, fitted to the source" if is_fitted else "here")
    if min(values) > 0 and max(values) > 50 * min(values):
        axis.set_xscale("log")
    elif min(values) >= 0:
        axis.set_xlim(left=0)
    axis.set_yticks(range(len(besides)), [beside.reported.label for beside in besides], fontsize=9)
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return Picture(PICTURE, study.title, f"{'; '.join(study.repeats)} of the source.", figure)


def horovod_opt(*arguments: object, environ: Mapping[str, str] = os.environ) -> int:
    """Runs the command that is installed beside this Python, in the project's folder; returns its
    exit status, and none of success if SIGTERM came meanwhile: nothing follows. Paths inside of
    that folder are recorded as relative ones."""
    program = Path(sys.executable).with_name("horovod-opt")
    if not program.exists():
        print(f"There is no horovod-opt beside {sys.executable}; remedy: make build, then "
              ".venv/bin/python experiments/...", file=sys.stderr)
        return 2
    process, is_ended = None, False

    def end(number: int, frame: object) -> None:
        nonlocal is_ended
        is_ended = True
        if process:
            process.terminate()

    before = signal.signal(signal.SIGTERM, end)
    try:
        process = subprocess.Popen([program, *map(relative, arguments)], cwd=ROOT, env=environ)
        if is_ended:  # before there was a process
            process.terminate()
        while True:
            try:
                return process.wait() or (TERMINATED if is_ended else 0)
            except KeyboardInterrupt:  # it was interrupted as well, and first ends its own jobs
                pass
    finally:
        signal.signal(signal.SIGTERM, before)


def relative(argument: object) -> str:
    """A path as it is seen from the project's folder; anything else as text."""
    if not isinstance(argument, Path):
        return str(argument)
    path = argument.absolute()
    return str(path.relative_to(ROOT) if ROOT in path.parents else path)


@dataclass(frozen=True)
class Tool:
    """One command of horovod-opt, with options that stand before the user's own."""

    command: Sequence[str]
    options: Sequence[object] = ()

    @property
    def passes_on(self) -> str:
        return " ".join(["horovod-opt", *self.command, *map(relative, self.options)])

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        pass

    def run(self, options: argparse.Namespace, further: Sequence[str], folder: Path) -> int:
        return horovod_opt(*self.command, *self.options, "--output", folder, *further)


def training(*options: object) -> Tool:
    """The suite training of the benchmark."""
    return Tool(("bench", "training"), (*SMALL, "--images", IMAGES, *options))
