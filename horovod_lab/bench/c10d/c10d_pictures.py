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
LITTLE = 1 << 10


@dataclass(frozen=True)
class Target(Bound):
    """Of `what` ("allreduce", "training" or "idle") with so many ranks; of an allreduce the least
    ratio over the sizes from `first` to `last` bytes. Ratios are speeds, ours over gloo's."""

    what: str
    ranks: int
    unit: str
    first: int = 0
    last: int = 0
    hosts: int = 1
    least: float | None = None
    most: float | None = None


TARGETS = (*(Target("allreduce", ranks, "x gloo", 0, SMALL, least=5) for ranks in (2, 4)),
           *(Target("allreduce", ranks, "x gloo", LARGE, LARGE, least=3) for ranks in (2, 4)),
           *(Target("allreduce", ranks, "x gloo", LITTLE, LITTLE, 2, least=1) for ranks in (2, 4)),
           Target("allreduce", 2, "x gloo", LARGE, LARGE, 2, least=1),
           Target("allreduce", 4, "x gloo", LARGE, LARGE, 2, least=1.5),
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
    of_ranks = [job for job in measurements
                if _place(job) == (target.ranks, target.hosts)]
    failed = sum("failed" in job for job in of_ranks)
    values = [value for job in of_ranks if "failed" not in job
              if (value := _value(target, job)) is not None]
    return verdict(target, Spread.of(values) if values else None,
                   f"{failed} of {len(of_ranks)} jobs failed" if failed else "",
                   () if values else [
                       f"{target.what}, {target.ranks} ranks on {hosts_text(target.hosts)}"])


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


def hosts_text(hosts: int) -> str:
    return "1 host" if hosts == 1 else f"{hosts} hosts"


def _place(job: dict[str, Any]) -> tuple[int, int]:
    """Ranks and hosts."""
    return job["ranks"], job["hosts"]


def _rows(jobs: Sequence[dict[str, Any]],
          what: str) -> Iterator[tuple[tuple[int, int], str, list[dict[str, Any]]]]:
    """((ranks, hosts), series, measurements by column)."""
    for place in dict.fromkeys(map(_place, jobs)):
        of_place = [job[what] for job in jobs if _place(job) == place and job.get(what)]
        for series in of_place[0] if of_place else ():
            yield place, series, of_place


def _allreduces(jobs: Sequence[dict[str, Any]]) -> Grid:
    sizes = list(jobs[0]["microseconds"][OURS])
    rows = [(str(ranks), str(hosts), series, *(
        in_two_lines(Spread.of([job[series][size] for job in of_place])) for size in sizes))
        for (ranks, hosts), series, of_place in _rows(jobs, "microseconds")]
    return Grid("One allreduce of float32, us",
                ("ranks", "hosts", "backend", *(bytes_text(int(size)) for size in sizes)), rows,
                "Medians, smallest to largest job, of the slowest rank. Several hosts are imitated "
                "on one machine, by ranks that share no memory.")


def _trainings(jobs: Sequence[dict[str, Any]]) -> Grid:
    rows = [(str(ranks), series, in_two_lines(Spread.of([job[series] for job in of_place])))
            for (ranks, _), series, of_place in _rows(jobs, "images_per_second")]
    return Grid("DistributedDataParallel, ResNet50", ("ranks", "backend", "images/s of all"), rows,
                "96 pixels, batches of 4, one thread a rank; weights are equal after each job, bit "
                f"for bit. {LIMIT.capitalize()}: the same training, each rank by itself.")


def _targets(verdicts: Sequence[Verdict]) -> Grid:
    def name(target: Target) -> str:
        size = bytes_text(target.last)
        of = "" if not target.last else f" up to {size}" if not target.first else f" of {size}"
        return target.what + of

    return Grid("Targets", ("what", "ranks", "hosts", "target", "value", "met"), [
        (name(one.target), str(one.target.ranks), str(one.target.hosts), str(one.target),
         number(one.value.median) if one.value else "", one.words()) for one in verdicts])


def _picture(jobs: Sequence[dict[str, Any]]) -> Picture:
    places = list(dict.fromkeys(map(_place, jobs)))
    figure = Figure(figsize=(1.0 + 5.0 * len(places), 5.0), layout="constrained")
    axes = figure.subplots(1, len(places), squeeze=False, sharey=True)[0]
    for axis, (ranks, hosts) in zip(axes, places):
        for line, (_, series, of_place) in enumerate(
                row for row in _rows(jobs, "microseconds") if row[0] == (ranks, hosts)):
            sizes = of_place[0][series]
            spreads = [Spread.of([job[series][size] for job in of_place]) for size in sizes]
            medians = [spread.median for spread in spreads]
            axis.errorbar([int(size) for size in sizes], medians, label=series,
                          yerr=[[spread.median - spread.low for spread in spreads],
                                [spread.high - spread.median for spread in spreads]],
                          color=series_colour(series), marker=MARKERS[line], markersize=5,
                          linewidth=1.6, capsize=3)
        axis.set(xscale="log", yscale="log", xlabel="bytes")
        axis.set_title(f"{ranks} ranks on {hosts_text(hosts)}", fontsize=11)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    axes[0].set_ylabel("us (lower is better)")
    return Picture("c10d", TITLE, "The time of one allreduce by its bytes. Marks are medians, bars "
                   "reach from the smallest to the largest job.", figure)
