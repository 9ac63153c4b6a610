"""What the measurements amount to, as rows, as JSON and as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from horovod_lab.bench.worker_job import BASE, limit_and_base_first
from horovod_lab.measuring.comparison import Spread, by_round, compare, difference, ratio
from horovod_lab.measuring.present import Grid, number


@dataclass(frozen=True)
class Metric:
    """One number of a workload; `key` is its name in the result that the workload prints."""

    workload: str
    key: str
    label: str
    unit: str
    better: str
    against: Callable[[float, float], float | None] = ratio
    plotted: bool = True


METRICS = (
    Metric("idle", "background_percent", "idle CPU, background thread", "% of a core",
           "lower"),
    Metric("idle", "process_percent", "idle CPU, process", "% of a core", "lower",
           plotted=False),
    Metric("idle", "memory_mib", "peak memory of a rank, idle", "MiB", "lower",
           against=difference, plotted=False),
    Metric("chain", "microseconds", "20 dependent allreduces", "us each", "lower"),
    Metric("small", "milliseconds", "160 independent allreduces", "ms", "lower"),
    Metric("resnet50", "images_per_second", "ResNet50 training", "images/s", "higher"),
    Metric("resnet50_torch", "images_per_second", "ResNet50 training, PyTorch", "images/s",
           "higher"),
)


@dataclass(frozen=True)
class Row:
    """One series of one metric at one number of ranks."""

    metric: Metric
    ranks: int
    series: str
    spread: Spread | None
    against_off: Spread | None
    values: Sequence[float]
    failed: int


def rows(measurements: Sequence[dict]) -> Iterator[Row]:
    """Sorted by metric, ranks and series, the last two as they were first measured."""
    for metric in METRICS:
        of_workload = [m for m in measurements if m["workload"] == metric.workload]
        for ranks in dict.fromkeys(m["ranks"] for m in of_workload):
            cell = [m for m in of_workload if m["ranks"] == ranks]
            names = dict.fromkeys(m["series"] for m in cell)
            by_series = {name: by_round(cell, name, lambda m: m["metrics"][metric.key])
                         for name in names}
            for series in sorted(names, key=limit_and_base_first):
                values = by_series[series]
                against = compare(values, by_series.get(BASE, {}), metric.against)
                yield Row(
                    metric, ranks, series,
                    spread=Spread.of(list(values.values())) if values else None,
                    against_off=against if series != BASE else None,
                    values=list(values.values()),
                    failed=sum("failed" in m for m in cell if m["series"] == series))


def summary(measurements: Sequence[dict]) -> list[dict]:
    """The table for machines: part of the JSON file."""
    return [{
        "metric": row.metric.key, "workload": row.metric.workload, "unit": row.metric.unit,
        "better": row.metric.better, "ranks": row.ranks, "series": row.series,
        "spread": row.spread and asdict(row.spread),
        "against_off": row.against_off and {
            "how": row.metric.against.__name__, **asdict(row.against_off)},
        "failed": row.failed,
    } for row in rows(measurements)]


def grid(measurements: Sequence[dict]) -> Grid:
    lines, previous = [], None
    for row in rows(measurements):
        heading = f"{row.metric.label}, {row.metric.unit}", str(row.ranks)
        lines.append((*(heading if heading != previous else ("", "")), row.series, *_cells(row)))
        previous = heading
    return Grid("Horovod's overhead", ("measured", "ranks", "series", "median", "min to max", "n",
                                       "against off"), lines,
                "Against off: the median of the pairs of a round.")


def _cells(row: Row) -> tuple[str, str, str, str]:
    if row.spread is None:
        return "failed", "", f"0 of {row.failed}", ""
    n = f"{row.spread.n} of {row.spread.n + row.failed}" if row.failed else str(row.spread.n)
    return (number(row.spread.median), _interval(row.spread, number), n, _against(row))


def _against(row: Row) -> str:
    if row.against_off is None:
        return ""
    form = _ratio if row.metric.against is ratio else (lambda value: f"{value:+.2f}")
    return f"{form(row.against_off.median)} ({_interval(row.against_off, form)})"


def _interval(spread: Spread, form: Callable[[float], str]) -> str:
    return f"{form(spread.low)} to {form(spread.high)}"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
