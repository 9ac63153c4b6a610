"""Pictures of the background threads' cycles."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from horovod_lab.measuring.present import Picture
from horovod_lab.style import RANK_COLOURS, SMALL_LETTERS, STATE_COLOURS, finish

MARKED = 0.001  # s: an oversleep from this length on has a mark
LABELS = {"running": "running", "waiting": "waiting for a core", "asleep": "asleep"}


def draw_cycles(cycles: Mapping) -> Picture:
    """A timeline for each rank, in each excerpt that the document has."""
    excerpts = cycles["bursts"]
    ranks = len(excerpts[0]["ranks"])
    figure = Figure(figsize=(8, 1.2 + len(excerpts) * (0.9 + 0.42 * ranks)), layout="constrained")
    panels = figure.subplots(len(excerpts), 1, squeeze=False)[:, 0]
    for panel, excerpt in zip(panels, excerpts):
        for place, timeline in enumerate(excerpt["ranks"].values()):
            for start, end, state in timeline:
                panel.broken_barh([(1e3 * start, 1e3 * (end - start))], (place - 0.32, 0.64),
                                  color=STATE_COLOURS[state], linewidth=0)
                if state == "waiting" and end - start >= MARKED:
                    panel.plot(500 * (start + end), place - 0.42, marker="v", markersize=5,
                               color="black", clip_on=False)
        panel.set_yticks(range(ranks), [f"rank {rank}" for rank in excerpt["ranks"]])
        panel.set_ylim(ranks - 0.5, -0.6)
        panel.set_xlim(0, 1e3 * excerpt["seconds"])
        panel.set_title(f"{excerpt['shown']}, {excerpt['start']:.1f} s after the start of the job",
                        fontsize=10, loc="left")
        finish(panel)
    panels[-1].set_xlabel("time, ms")
    handles = [Patch(color=STATE_COLOURS[state], label=label) for state, label in LABELS.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False,
                  fontsize=SMALL_LETTERS)
    rules = "; ".join(f"{excerpt['shown']}: {excerpt['rule']}" for excerpt in excerpts)
    return Picture(
        "cycles", "Cycles of the background threads",
        "What the background thread of each rank does, from the kernel's scheduling counters read "
        f"every {1e3 * cycles['resolution_seconds']:g} ms. Running includes spinning in MPI. "
        f"Triangles mark oversleeps of at least {1e3 * MARKED:g} ms: the thread could run, but has "
        f"no core. The cycle time is {1e3 * cycles['cycle_time_seconds']:g} ms. {rules}. Figures "
        "6.8 (in step), 6.9 (off), 6.11 (gs) and 6.12 (nbcs) of the source draw such timelines.",
        figure)


def draw_oversleeps(cycles: Mapping) -> Picture:
    """The share of wake-ups that wait longer, over the length of the wait."""
    figure = Figure(figsize=(6.5, 3.4), layout="constrained")
    axis = figure.subplots()
    for number, (rank, waits) in enumerate(cycles["oversleeps_seconds"].items()):
        ordered = sorted(max(1e3 * wait, 1e-3) for wait in waits)  # ms, from 1 us on
        longer = [100 * (1 - place / len(ordered)) for place in range(1, len(ordered) + 1)]
        axis.step([1e-3, *ordered], [100, *longer], where="post",
                  color=RANK_COLOURS[number % len(RANK_COLOURS)], linewidth=1.4,
                  label=f"rank {rank}")
    axis.axvline(1e3 * cycles["cycle_time_seconds"], color="black", linestyle="--", linewidth=1)
    axis.text(1e3 * cycles["cycle_time_seconds"], 99, " cycle time", fontsize=SMALL_LETTERS,
              va="top")
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_ylim(0, 100)
    axis.set_xlabel("time from being able to run to running, ms")
    axis.set_ylabel("wake-ups that wait longer, %")
    if len(cycles["oversleeps_seconds"]) <= 8:
        axis.legend(frameon=False, fontsize=SMALL_LETTERS)
    finish(axis)
    return Picture(
        "oversleeps", "Oversleeps of the background threads",
        f"How long a background thread waits for a core once it could run, in all bursts of the "
        f"steady part ({cycles['seconds']:g} s). A wait longer than the cycle time makes the other "
        "ranks skip their sleep (Chapter 6.2.4 of the source).", figure)
