"""The tables and the picture of the suite stream, from its JSON alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graph_analysis.palette import COLOURS, GREY
from horovod_lab.io.suites.stream.results import (
    LABELS,
    SPEED,
    STEP_SECONDS,
    Kind,
    StreamCell,
    cells,
    verdicts,
)
from horovod_lab.measuring.comparison import Spread
from horovod_lab.measuring.literature import SPEEDUP, WAITING
from horovod_lab.measuring.present import Grid, Picture, Section
from horovod_lab.measuring.verdict import in_two_lines
from horovod_lab.style import MARKERS

TITLE = "JPEGs through tf.data"
STYLES = ("-", "--", ":", "-.")  # of kinds with the same preprocessing


def name_of(testbed: str, step_seconds: float) -> str:
    """Of the JSON file and the picture."""
    return ("io-stream" + (f"-{testbed}" if testbed != "warm" else "")
            + "-steps" * bool(step_seconds))


def section(document: dict[str, Any], targets: bool) -> Section:
    settings, cells_by_kind = document["settings"], cells(document)
    judgements = list(verdicts(document))
    met = sum(verdict.met is True for _, verdict in judgements)
    score = f"{met} of {len(judgements)} targets met"
    grids = [_grid(kind, by_threads, settings) for kind, by_threads in cells_by_kind.items()]
    if targets:
        grids.append(_target_grid(judgements, score))
    has_values = any(cell.values(name, SPEED) for by_threads in cells_by_kind.values()
                     for cell in by_threads.values() for name in cell.series)
    return Section(TITLE, f"{settings['files']} JPEGs of {settings['file_bytes']} bytes on stand "
                   f"{settings['stand']}: {score}.",
                   grids, [_picture(cells_by_kind, settings)] if has_values else [])


def _grid(kind: Kind, by_threads: Mapping[int, StreamCell], settings: Mapping[str, Any]
          ) -> Grid:
    steps = settings[STEP_SECONDS]
    rows = [_row(cell, name, by_threads.get(1), steps)
            for name in LABELS for cell in by_threads.values() if name in cell.series]
    after = f", {steps:g} s after each batch" if steps else ""
    return Grid(f"{TITLE}, stand {settings['stand']}: {kind}{after}",
                ("pipeline", "threads", "images/s", "x 1 thread", *_sources(steps), "x tf.data",
                 "CPU ms / image", "waiting, %", "MiB read", "requests", ""), rows,
                "Medians, smallest to largest run; ratios of a round. Waiting: of the time, for a "
                "batch. MiB read and requests: of the storage, where it counts them.")


def _sources(steps: float) -> tuple[str, ...]:
    """Columns of the source's numbers: those of threads are not of a training."""
    return () if steps else tuple(f"source: {device}" for device in SPEEDUP)


def _row(cell: StreamCell, name: str, single: StreamCell | None, steps: float) -> tuple[str, ...]:
    label, failures = (LABELS[name], str(cell.threads)), len(cell.failures(name))
    source = () if steps else tuple(
        source_numbers[cell.threads].text() if cell.threads in source_numbers else ""
        for source_numbers in SPEEDUP.values())
    if not cell.values(name, SPEED):
        return (*label, "failed", "", *("" for _ in source), *("",) * 5, f"{failures} failed")
    waiting = cell.spread(name, "waiting")
    return (*label, in_two_lines(cell.spread(name, SPEED)),
            in_two_lines(cell.over(name, single), ".2f") if single else "", *source,
            in_two_lines(cell.ratio(name, "tf-data"), ".2f") if name != "tf-data" else "",
            in_two_lines(cell.spread(name, "cpu_ms_per_image"), ".2f"),
            f"{100 * waiting.median:.0f}", _storage_count(cell, name, "bytes", 1 << 20),
            _storage_count(cell, name, "requests"),
            f"{failures} failed" if failures else "")


def _storage_count(cell: StreamCell, name: str, key: str, scale: float = 1) -> str:
    """The median of what the storage counted; empty where it does not."""
    counts = [measurement[key] / scale for measurement in cell.measurements
              if measurement["series"] == name and key in measurement]
    return f"{Spread.of(counts).median:.0f}" if counts else ""


def _target_grid(judgements: Sequence[tuple], score: str) -> Grid:
    rows = [(LABELS[verdict.target.series], str(cell.kind), str(cell.threads), str(verdict.target),
             in_two_lines(verdict.value, ".2f"), verdict.words()) for cell, verdict in judgements]
    return Grid(f"{TITLE}: {score}", ("of", "images/s", "threads", "target", "value", "met"),
                rows, "Medians of the pairs of a round, smallest to largest.")


def _picture(cells_by_kind: Mapping[Kind, Mapping[int, StreamCell]], settings: Mapping[str, Any]
             ) -> Picture:
    """A column of axes with and one without preprocessing: images/s above, and below what the
    source has numbers of."""
    columns = list(dict.fromkeys(kind.preprocessing for kind in cells_by_kind))
    steps = settings[STEP_SECONDS]
    figure = Figure(figsize=(1.5 + 4.5 * len(columns), 8), layout="constrained")
    axes = figure.subplots(2, len(columns), sharex=True, squeeze=False)
    for column, preprocessing in enumerate(columns):
        above, below = axes[:, column]
        kinds = [kind for kind in cells_by_kind if kind.preprocessing == preprocessing]
        for number, kind in enumerate(kinds):
            style = STYLES[number % len(STYLES)]
            for index, name in enumerate(LABELS):
                look = {"color": COLOURS[index], "marker": MARKERS[index], "linestyle": style,
                        "markerfacecolor": "white" if number % 2 else COLOURS[index],
                        "label": f"{LABELS[name]}, batch {kind.batch}, prefetch {kind.prefetch}"}
                _line(above, {threads: cell.spread(name, SPEED)
                              for threads, cell in cells_by_kind[kind].items()}, look)
                _line(below, _second(cells_by_kind[kind], name, steps), look)
        if not steps:
            _draw_source(below)
        elif any(kind.prefetch == 1 for kind in kinds):
            below.axhline(100 * WAITING.low, color=GREY, linewidth=4, zorder=0,
                          label="source, prefetch 1")
        above.set_title(f"{preprocessing} preprocessing")
        below.set_xlabel("threads")
        below.set_xscale("log", base=2)
        below.set_xticks(settings["threads"], [str(count) for count in settings["threads"]])
    axes[0, 0].set_ylabel("images/s")
    axes[1, 0].set_ylabel("time in which steps wait, %" if steps else "images/s over 1 thread")
    for axis in axes.flat:
        axis.set_ylim(0, 1.05 * axis.get_ylim()[1])
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", alpha=0.3)
    handles = {label: handle for axis in axes[1] for handle, label
               in zip(*axis.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center",
                  ncols=1 + len(columns), fontsize=9, frameon=False)
    return Picture(name_of(settings["stand"], steps), TITLE,
                   f"JPEGs on stand {settings['stand']} through tf.data alone and through this "
                   "project's input side, beside the source's numbers. Points are medians, lines "
                   "reach from the smallest to the largest run.", figure)


def _second(by_threads: Mapping[int, StreamCell], name: str, steps: float
            ) -> dict[int, Spread | None]:
    if not steps:
        single = by_threads.get(1)
        return {threads: cell.over(name, single) for threads, cell in by_threads.items()
                } if single else {}
    waiting = {threads: cell.values(name, "waiting") for threads, cell in by_threads.items()}
    return {threads: Spread.of([100 * single for single in values.values()]) if values else None
            for threads, values in waiting.items()}


def _line(axis: Axes, by_threads: Mapping[int, Spread | None], look: Mapping[str, Any]) -> None:
    spreads = {threads: spread for threads, spread in by_threads.items() if spread}
    medians = [spread.median for spread in spreads.values()]
    ends = [[spread.median - spread.low for spread in spreads.values()],
            [spread.high - spread.median for spread in spreads.values()]]
    if spreads:
        axis.errorbar(list(spreads), medians, yerr=ends, capsize=2, **look)


def _draw_source(axis: Axes) -> None:
    for device, marker in zip(SPEEDUP, "xP"):
        numbers = SPEEDUP[device]
        axis.plot(list(numbers), [number.low for number in numbers.values()], marker, color=GREY,
                  markersize=9, label=f"source, {device}")
