"""What all experiments have in common: a study of the source, repeated and put beside it.

Results lie in results/NAME/: the JSON files and pictures of the tools, and beside-the-source.png.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from matplotlib.figure import Figure

from graph_analysis.palette import BLUE, GREY
from horovod_lab.bench.training.results import Row, rows
from horovod_lab.measuring import documents
from horovod_lab.measuring.present import Grid, Picture, Section, show
from horovod_lab.report.source import Beside

RESULTS = Path(__file__).parent / "results"
KINDS = ("bench", "nodes", "profile", "simulation", "traversal", "cis-window", "io-lmdb",
         "io-stream")
PICTURE = "beside-the-source"


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
            compared = self.compare(read(folder))
        except documents.DocumentError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            return 2
        if not compared:
            print(f"{self.name}: nothing was measured that the source has a number of",
                  file=sys.stderr)
            return 2
        show(Section(self.title, "", [table(self, compared)], [picture(self, compared)]), folder)
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


def read(folder: Path) -> list[dict[str, Any]]:
    """All documents of a study. Raises DocumentError for one that cannot be used."""
    return [documents.load(path, *KINDS) for path in sorted(folder.rglob("*.json"))]


def whole_steps(found: Sequence[dict[str, Any]]) -> list[Row]:
    """Of benchmarks, what was measured with gradients reduced while others are computed."""
    return [row for row in benchmark_rows(found) if not row.cell.separate]


def benchmark_rows(found: Sequence[dict[str, Any]]) -> list[Row]:
    return [row for one in found for row in rows(one["measurements"])]


def table(study: Study, compared: Sequence[Beside]) -> Grid:
    return Grid(
        f"{study.title} Beside the source", ("", "source", "where in the source", "here", "at"),
        [(one.reported.what, one.reported.text(), one.reported.where, here(one), one.at)
         for one in compared])


def here(one: Beside) -> str:
    return one.reported.show(one.here) + (" (fitted)" if one.fitted else "")


def picture(study: Study, compared: Sequence[Beside]) -> Picture:
    """A line for each number: the source's as a square, or a bar for a range, and ours as a dot."""
    figure = Figure(figsize=(8.0, 1.4 + 0.36 * len(compared)), layout="constrained")
    axis = figure.subplots()
    shown = []
    for place, one in enumerate(compared):
        low, high, mine = (one.reported.scale * value for value in (*one.reported.bounds, one.here))
        axis.plot([low, high], [place, place], "s-", color=GREY, markersize=7, linewidth=5,
                  label="source" if not place else None)
        axis.plot([mine], [place], "o", color=BLUE, markersize=8,
                  markerfacecolor="white" if one.fitted else BLUE)
        shown += [low, high, mine]
    for fitted in sorted({one.fitted for one in compared}):
        axis.plot([], [], "o", color=BLUE, markerfacecolor="white" if fitted else BLUE,
                  label="here, fitted to the source" if fitted else "here")
    if min(shown) > 0 and max(shown) > 50 * min(shown):
        axis.set_xscale("log")
    elif min(shown) >= 0:
        axis.set_xlim(left=0)
    axis.set_yticks(range(len(compared)), [one.reported.what for one in compared], fontsize=9)
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return Picture(PICTURE, study.title, f"{'; '.join(study.repeats)} of the source.", figure)
