"""The pictures and the table of one profile, from its JSON alone."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from horovod_lab.measuring.present import Grid, Picture, Section
from horovod_lab.profile.classes import BACKGROUND, CLASSES
from horovod_lab.profile.cycle_pictures import draw_cycles, draw_oversleeps
from horovod_lab.profile.live import SHOWN
from horovod_lab.style import RANK_COLOURS, SYSTEM, USER, class_colour, finish


def section(document: Mapping) -> Section:
    """What `horovod-opt report` shows of a profile."""
    job, cycles = document["job"], document["cycles"]
    pictures = [_background(document), _classes(document)]
    if cycles:
        pictures += [draw_cycles(cycles), draw_oversleeps(cycles)]
    name = document["label"] or " ".join(job["command"])
    return Section(f"Profile: {name}", summary(document), [table(document)], pictures)


def summary(document: Mapping) -> str:
    job, steady = document["job"], document["steady"]
    kind = mode(document)
    text = (f"{job['ranks']} of {job['expected']} ranks, {kind}, sampled "
            f"{document['sampler']['samples']} times in {job['seconds']:.0f} s, which took "
            f"{document['sampler']['cpu_percent']:.2f} % of a core. Means are of "
            f"{steady['from_seconds']:.0f} to {steady['to_seconds']:.0f} s: {steady['rule']}.")
    if job["exit_status"]:
        text += f" The job ended with exit status {job['exit_status']}."
    return text


def mode(document: Mapping) -> str:
    modes = {rank["mode"] for rank in document["ranks"]}
    return ", ".join(f"mode {mode}" if mode else "upstream's Horovod" for mode in sorted(
        modes, key=str))


def rate(rank: Mapping, name: str, field: str) -> float:
    """Of a class, per second of the steady part."""
    steady = rank["steady"]
    return steady["classes"][name][field] / steady["seconds"] if steady["seconds"] else 0.0


def cpu(rank: Mapping, name: str) -> float:
    """Percent of a core."""
    return 100 * (rate(rank, name, "user_seconds") + rate(rank, name, "system_seconds"))


def over_classes(rank: Mapping, field: str) -> float:
    return sum(rate(rank, name, field) for name in rank["steady"]["classes"])


def table(document: Mapping) -> Grid:
    cycles = document["cycles"]
    columns = ["rank", *SHOWN.values(), "switches", "waiting"]
    if cycles:
        columns += ["oversleep", "longest", "wake-ups"]
    rows = []
    for rank in document["ranks"]:
        row = [str(rank["rank"]), *(f"{cpu(rank, name):.1f}" for name in SHOWN),
               f"{over_classes(rank, 'involuntary_switches'):.0f}",
               f"{100 * over_classes(rank, 'run_delay_seconds'):.0f}"]
        if cycles:
            waits = cycles["oversleeps_seconds"].get(str(rank["rank"])) or [0.0]
            row += [f"{1e6 * statistics.median(waits):.0f}", f"{1e3 * max(waits):.1f}",
                    f"{cycles['wakeups_per_second'].get(str(rank['rank']), 0.0):.0f}"]
        rows.append(row)
    return Grid("What the threads of each rank did", columns, rows,
                "CPU of the background thread, graph scheduling, the input pipeline and Python's "
                "main thread in % of a core; involuntary context switches per second; time in "
                "which threads wait for a core in %, their sum; the background thread's "
                "oversleeps: median in us, longest in ms; its wake-ups per second.")


def _background(document: Mapping) -> Picture:
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    over_time, bars = figure.subplots(1, 2, width_ratios=(2, 1))
    steady, ranks = document["steady"], document["ranks"]
    over_time.axvspan(steady["from_seconds"], steady["to_seconds"], color="#EEEEEE", zorder=0)
    for number, rank in enumerate(ranks):
        samples = rank["samples"]
        over_time.plot(samples["seconds"], [100 * share for share in samples["cpu"][BACKGROUND]],
                       color=RANK_COLOURS[number % len(RANK_COLOURS)], linewidth=1.1,
                       label=f"rank {rank['rank']}")
    over_time.set_xlabel("time since the start of the job, s")
    over_time.set_ylabel("background thread, % of a core")
    over_time.set_ylim(0, None)
    if len(ranks) <= 8:
        over_time.legend(frameon=False, fontsize=9, loc="upper left")

    places = range(len(ranks))
    user, system = ([100 * rate(rank, BACKGROUND, field) for rank in ranks]
                    for field in ("user_seconds", "system_seconds"))
    bars.bar(places, user, color=USER, width=0.6, label="user")
    bars.bar(places, system, bottom=user, color=SYSTEM, width=0.6, label="system")
    for place, of_user, of_system in zip(places, user, system):
        bars.text(place, of_user + of_system, f" {of_user + of_system:.3g}", ha="center",
                  va="bottom", fontsize=9)
    bars.set_xticks(places, [str(rank["rank"]) for rank in ranks])
    bars.set_xlim(-0.8, len(ranks) - 0.2)
    bars.set_xlabel("rank")
    bars.set_ylim(0, 1.3 * max(max(map(sum, zip(user, system))), 0.1))
    bars.legend(frameon=False, fontsize=9, ncols=2, loc="upper center")
    finish(over_time, bars)
    return Picture(
        "background", "CPU of the background thread",
        "How much of a core the background thread of each rank takes: over time, and on average "
        f"over the shaded part, which is {steady['rule']}. The same quantity as Figures 6.10 and "
        "6.18 of the source, where it was 60 to 90 % in unmodified Horovod and about 6 % in TOPO.",
        figure)


def _classes(document: Mapping) -> Picture:
    ranks = document["ranks"]
    figure = Figure(figsize=(7, 2.2 + 0.75 * len(ranks)), layout="constrained")
    panels = figure.subplots(3, 1, sharey=True)
    quantities = (
        ("CPU, cores", lambda rank, name: cpu(rank, name) / 100),
        ("involuntary context switches per second",
         lambda rank, name: rate(rank, name, "involuntary_switches")),
        ("waiting for a core, threads at a time",
         lambda rank, name: rate(rank, name, "run_delay_seconds")),
    )
    names = classes_of(ranks)
    for panel, (label, value) in zip(panels, quantities):
        starts = [0.0] * len(ranks)
        for name in names:
            widths = [value(rank, name) for rank in ranks]
            panel.barh(range(len(ranks)), widths, left=starts, height=0.65,
                       color=class_colour(name), label=name)
            starts = [a + b for a, b in zip(starts, widths)]
        panel.set_xlabel(label)
        panel.set_xlim(0, 1.03 * max(max(starts), 1e-3))
        panel.xaxis.set_major_locator(MaxNLocator(6))
        panel.set_yticks(range(len(ranks)), [f"rank {rank['rank']}" for rank in ranks])
    panels[0].invert_yaxis()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    finish(*panels)
    return Picture(
        "classes", "Who uses the cores, and who waits for them",
        "CPU time, involuntary context switches (Chapter 6.2.5 of the source) and time in the "
        "kernel's run queues, by class of thread, on average over the steady part.", figure)


def classes_of(ranks: Sequence[Mapping]) -> list[str]:
    """Those that have threads, in the order of the table, then the user's."""
    names = [name for rank in ranks for name, usage in rank["classes"].items() if usage["threads"]]
    return [*(name for name in CLASSES if name in names),
            *sorted(set(names) - set(CLASSES))]
