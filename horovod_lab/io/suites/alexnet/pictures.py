"""The tables and the picture of the suite alexnet, from its JSON alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graph_analysis.palette import COLOURS, GREY
from horovod_lab.io.suites.alexnet.results import (
    BATCH,
    BATCHES,
    BURST,
    DISK,
    FAST,
    LOST,
    MEMORY,
    NONE,
    PARTS,
    SECONDS,
    SLOW,
    THREADS,
    WAYS,
    input_time,
    measured,
    median,
)
from horovod_lab.io.suites.alexnet.results import targets as judge
from horovod_lab.measuring.present import Grid, Picture, Section, number

TITLE = "AlexNet on JPEGs, with checkpoints"
NOTE = ("Medians of rounds, of trainings with no checkpoints. Waiting: of the time, for a batch. "
        "disk: cold, 200 requests a second; memory: a warm page cache.")
SAVE_NOTE = ("Lost: the training stood for its checkpoints. After it: until all is copied to the "
             "slow storage.")
CAPTION = ("Bars: light with prefetching, white what it takes longer without. Below: MB/s in each "
           "second, of the last round; dotted: the training has ended.")


def section(document: dict[str, Any], targets: bool) -> Section:
    grids = [grid for grid in (_input_grid(document), _save_grid(document)) if grid.rows]
    if targets:
        grids.append(Grid(f"{TITLE}: targets", ("target", "value", "met"), judge(document)))
    failed = sum("failed" in each for each in document["measurements"])
    settings = document["settings"]
    summary = (f"{settings['files']} JPEGs of {settings['file_bytes']} bytes, {settings['pixels']} "
               f"pixels; {failed} jobs failed.")
    return Section(TITLE, summary, grids, [_picture(document)] if measured(document) else [])


def _text(found: Optional[float], scale: float = 1) -> str:
    return "" if found is None else number(scale * found)


def _input_grid(document: Mapping[str, Any]) -> Grid:
    settings = document["settings"]
    shapes = [(part, threads, BATCH) for part in (DISK, MEMORY) for threads in settings["threads"]]
    shapes += [(BATCHES, THREADS, batch) for batch in settings["batch"]]
    rows = []
    for part, threads, batch in shapes:
        for prefetch in settings["prefetch"]:
            about = {"part": part, "threads": threads, "batch": batch, "prefetch": prefetch}
            seconds = input_time(document, **about)
            if seconds is not None:
                rows.append((PARTS[part], str(threads), str(batch), str(prefetch), number(seconds),
                             _text(input_time(document, "waiting", **about), 100)))
    return Grid(f"{TITLE}: input", ("part", "threads", "batch", "prefetch", "s", "waiting, %"),
                rows, NOTE)


def _save_grid(document: Mapping[str, Any]) -> Grid:
    rows = []
    for way in WAYS:
        found = measured(document, part=way)
        if found:
            saves = way != NONE
            rows.append((PARTS[way], number(median(found, SECONDS)), *(
                number(median(found, key)) if saves else ""
                for key in (LOST, "checkpoint_seconds", "behind_seconds")),
                number(found[0]["variables_bytes"] / 1e6)))
    return Grid(f"{TITLE}: checkpoints", ("way", "training, s", "lost, s", "a checkpoint, s",
                                          "after it, s", "MB of a version"), rows, SAVE_NOTE)


def _picture(document: Mapping[str, Any]) -> Picture:
    chart = Figure(figsize=(10, 8), layout="constrained")
    axes = chart.subplots(3, 2)
    settings = document["settings"]
    bars = [(f"{part}\n{threads}", {"part": part, "threads": threads})
            for part in (DISK, MEMORY) for threads in settings["threads"]]
    _draw_pairs(axes[0][0], document, bars, "as Figure 6: threads")
    sizes = [(str(batch), {"part": BATCHES, "batch": batch, "threads": THREADS})
             for batch in settings["batch"]]
    _draw_pairs(axes[0][1], document, sizes, "as Figure 7: images of a batch")
    for prefetch, colour in zip(settings["prefetch"], (GREY, COLOURS[0])):
        found = measured(document, part=DISK, threads=THREADS, prefetch=prefetch)
        if found:
            axes[1][0].step(*_seconds(found[-1]["traces"]["read"]), where="mid", color=colour,
                            label=f"prefetch {prefetch}")
    _finish(axes[1][0], "as Figure 8: read from the disk, MB/s")
    _draw_ways(axes[1][1], document)
    _draw_writes(axes[2][0], document, (SLOW,), "as Figure 10: straight to slow, MB/s")
    _draw_writes(axes[2][1], document, (BURST,), "as Figure 10: by BurstBuffer, MB/s")
    return Picture("io-alexnet", TITLE, CAPTION, chart)


def _draw_pairs(axis: Axes, document: Mapping[str, Any],
                bars: Sequence[tuple[str, dict[str, Any]]], title: str) -> None:
    """With prefetching, and on it what is more without."""
    for place, (_, about) in enumerate(bars):
        without, with_ = (input_time(document, prefetch=prefetch, **about) for prefetch in (0, 1))
        axis.bar(place, with_ or 0, color=COLOURS[0], edgecolor="black")
        axis.bar(place, max(0, (without or 0) - (with_ or 0)), bottom=with_ or 0, color="white",
                 edgecolor="black")
    axis.set_xticks(range(len(bars)), [label for label, _ in bars], fontsize=8)
    _finish(axis, f"{title}; s")


def _draw_ways(axis: Axes, document: Mapping[str, Any]) -> None:
    for place, way in enumerate(WAYS):
        found = measured(document, part=way)
        if found:
            seconds, lost = median(found, SECONDS), median(found, LOST)
            axis.bar(place, seconds - lost, color=GREY, label=None if place else "training")
            axis.bar(place, lost, bottom=seconds - lost, color=COLOURS[1],
                     label="checkpoints" if way == SLOW else None)
    axis.set_xticks(range(len(WAYS)), WAYS)
    _finish(axis, "as Figure 9; s")


def _draw_writes(axis: Axes, document: Mapping[str, Any], ways: Sequence[str], title: str) -> None:
    for way in ways:
        found = measured(document, part=way)
        if found:
            for name, colour in ((FAST, COLOURS[0]), (SLOW, COLOURS[1])):
                if name in found[-1]["traces"]:
                    axis.step(*_seconds(found[-1]["traces"][name]), where="mid", color=colour,
                              label=name)
            axis.axvline(found[-1][SECONDS], linestyle=":", color="black")
    _finish(axis, title)


def _seconds(trace: Sequence[float]) -> tuple[range, Sequence[float]]:
    return range(1, len(trace) + 1), trace


def _finish(axis: Axes, title: str) -> None:
    axis.set_title(title, fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False, fontsize=8)
