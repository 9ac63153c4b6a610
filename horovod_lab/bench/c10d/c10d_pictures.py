"""The tables, targets and picture of the suite c10d, from its JSON alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from horovod_lab.bench.sizes.sizes_pictures import bytes_text
from horovod_lab.bench.worker_job import LIMIT
from horovod_lab.measuring.comparison import Spread
from horovod_lab.measuring.present import Grid, Picture, Section, number
from horovod_lab.measuring.verdict import Bound, Verdict, in_two_lines, verdict
from horovod_lab.style import MARKERS, series_colour

TITLE = "torch.distributed on CPUs"
OURS, OTHER = "hvdopt", "gloo"
SMALL, LARGE = 1 << 16, 1 << 25


@dataclass(frozen=True)
class Target(Bound):
    """Of `what` ("allreduce", "training" or "idle") with so many ranks; of an allreduce the least
    ratio over the sizes from `first` to `last` bytes. Ratios are speeds, ours over gloo's."""

    what: str
    ranks: int
    unit: str
    first: int = 0
    last: int = 0
    least: float | None = None
    most: float | None = None


TARGETS = (*(Target("allreduce", ranks, "x gloo", 0, SMALL, least=5) for ranks in (2, 4)),
           *(Target("allreduce", ranks, "x gloo", LARGE, LARGE, least=3) for ranks in (2, 4)),
           Target("training", 2, "x gloo", least=1.15),
           Target("idle", 2, "% of a core", most=0.3))


def section(document: dict[str, Any]) -> Section:
    jobs = [job for job in document["measurements"] if "failed" not in job]
    if not jobs:
        return Section(TITLE, "Nothing was measured.")
    verdicts = [judge(target, document["measurements"]) for target in TARGETS]
    met = sum(verdict.met is True for verdict in verdicts)
    return Section(TITLE, f"{met} of {len(verdicts)} targets are met.",
                   [_allreduces(jobs), _trainings(jobs), _targets(verdicts)], [_picture(jobs)])


def judge(target: Target, measurements: Sequence[dict[str, Any]]) -> Verdict:
    """By the medians of the rounds, in each of which both were measured by turns."""
    of_ranks = [job for job in measurements if job["ranks"] == target.ranks]
    failed = sum("failed" in job for job in of_ranks)
    values = [value for job in of_ranks if "failed" not in job
              if (value := _value(target, job)) is not None]
    return verdict(target, Spread.of(values) if values else None,
                   f"{failed} of {len(of_ranks)} jobs failed" if failed else "",
                   () if values else [f"{target.what}, {target.ranks} ranks"])


def _value(target: Target, job: dict[str, Any]) -> float | None:
    if target.what == "idle":
        return job["idle_percent"]
    if target.what == "training":
        speeds = job.get("images_per_second")
        return speeds and speeds[OURS] / speeds[OTHER]
    ratios = [job["microseconds"][OTHER][size] / us
              for size, us in job["microseconds"][OURS].items()
              if target.first <= int(size) <= target.last]
    return min(ratios, default=None)


def _rows(jobs: Sequence[dict[str, Any]], what: str) -> Iterator[tuple[int, str, dict]]:
    """(ranks, series, spread by column)."""
    for ranks in dict.fromkeys(job["ranks"] for job in jobs):
        of_ranks = [job[what] for job in jobs if job["ranks"] == ranks and job.get(what)]
        for series in of_ranks[0] if of_ranks else ():
            yield ranks, series, of_ranks


def _allreduces(jobs: Sequence[dict[str, Any]]) -> Grid:
    sizes = list(jobs[0]["microseconds"][OURS])
    rows = [(str(ranks), series, *(
        in_two_lines(Spread.of([job[series][size] for job in of_ranks])) for size in sizes))
        for ranks, series, of_ranks in _rows(jobs, "microseconds")]
    return Grid("One allreduce of float32, us",
                ("ranks", "backend", *(bytes_text(int(size)) for size in sizes)), rows,
                "Medians, smallest to largest job, of the slowest rank.")


def _trainings(jobs: Sequence[dict[str, Any]]) -> Grid:
    rows = [(str(ranks), series, in_two_lines(Spread.of([job[series] for job in of_ranks])))
            for ranks, series, of_ranks in _rows(jobs, "images_per_second")]
    return Grid("DistributedDataParallel, ResNet50", ("ranks", "backend", "images/s of all"), rows,
                "96 pixels, batches of 4, one thread a rank; weights are equal after each job, bit "
                f"for bit. {LIMIT.capitalize()}: the same training, each rank by itself.")


def _targets(verdicts: Sequence[Verdict]) -> Grid:
    def name(target: Target) -> str:
        sizes = {SMALL: f" up to {bytes_text(SMALL)}", LARGE: f" of {bytes_text(LARGE)}"}
        return target.what + sizes.get(target.last, "")

    return Grid("Targets", ("what", "ranks", "target", "value", "met"), [
        (name(one.target), str(one.target.ranks), str(one.target),
         number(one.value.median) if one.value else "", one.words()) for one in verdicts])


def _picture(jobs: Sequence[dict[str, Any]]) -> Picture:
    ranks = list(dict.fromkeys(job["ranks"] for job in jobs))
    figure = Figure(figsize=(1.0 + 5.0 * len(ranks), 5.0), layout="constrained")
    axes = figure.subplots(1, len(ranks), squeeze=False, sharey=True)[0]
    for axis, count in zip(axes, ranks):
        for place, (_, series, of_ranks) in enumerate(
                row for row in _rows(jobs, "microseconds") if row[0] == count):
            spreads = [Spread.of([job[series][size] for job in of_ranks]) for size in of_ranks[0][
                series]]
            medians = [spread.median for spread in spreads]
            axis.errorbar([int(size) for size in of_ranks[0][series]], medians, label=series,
                          yerr=[[spread.median - spread.low for spread in spreads],
                                [spread.high - spread.median for spread in spreads]],
                          color=series_colour(series), marker=MARKERS[place], markersize=5,
                          linewidth=1.6, capsize=3)
        axis.set(xscale="log", yscale="log", xlabel="bytes")
        axis.set_title(f"{count} ranks", fontsize=11)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    axes[0].set_ylabel("us (lower is better)")
    return Picture("c10d", TITLE, "The time of one allreduce by its bytes. Marks are medians, bars "
                   "reach from the smallest to the largest job.", figure)
