"""Several profiles beside each other: synthetic and real input, or modes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from matplotlib.figure import Figure

from horovod_lab.measuring.present import Grid, Picture, Section
from horovod_lab.profile.classes import BACKGROUND
from horovod_lab.profile.profile_pictures import classes_of, cpu, mode, over_classes, rate
from horovod_lab.style import SMALL_LETTERS, SYSTEM, USER, class_colour, finish


def comparison(names: Sequence[str], documents: Sequence[Mapping]) -> Section:
    """`names` are shown; the first profile is what the others are compared with."""
    profiles = list(zip(names, documents))
    text = ", ".join(f"{name}: {mode(document)}, {document['job']['ranks']} ranks"
                     for name, document in profiles)
    return Section("Profiles compared", f"{text}. All numbers are of the steady parts.",
                   [_table(profiles)],
                   [_cpu(profiles), _by_class(
                       profiles, "compared-switches", "Involuntary context switches",
                       "involuntary switches/s of a rank", "involuntary_switches",
                       "Involuntary context switches by class of thread, mean of the ranks. The "
                       "source's Chapter 6.2.5 has 8.5 times as many with real as with synthetic "
                       "input, and its Chapter 6.4.1 3 to 25 times fewer in TOPO."),
                    _by_class(
                       profiles, "compared-run-delay", "Waiting for a core",
                       "threads of a rank that wait", "run_delay_seconds",
                       "How many threads of a rank wait for a core at a time (time in the kernel's "
                       "run queues per second), by class, mean of the ranks.")])


def _mean(document: Mapping, value: Callable[[Mapping], float]) -> float:
    return statistics.fmean(value(rank) for rank in document["ranks"])


def _table(profiles: Sequence[tuple[str, Mapping]]) -> Grid:
    rows = []
    first = None
    for name, document in profiles:
        switches = _mean(document, lambda rank: over_classes(rank, "involuntary_switches"))
        first = switches if first is None else first
        cycles = document["cycles"]
        waits = [wait for of_rank in (cycles or {}).get("oversleeps_seconds", {}).values()
                 for wait in of_rank]
        rows.append([
            name, mode(document).removeprefix("mode "), str(document["job"]["ranks"]),
            f"{_mean(document, lambda rank: cpu(rank, BACKGROUND)):.1f}",
            f"{switches:.0f}", f"{switches / first:.2f}" if first else "",
            f"{_mean(document, lambda rank: over_classes(rank, 'run_delay_seconds')):.2f}",
            f"{1e3 * max(waits):.1f}" if waits else "",
            f"{_mean_of(cycles['wakeups_per_second']):.0f}" if cycles else ""])
    return Grid("Profiles compared, means of their ranks",
                ["profile", "mode", "ranks", "background", "switches", "to first", "waiting",
                 "longest", "wake-ups"], rows,
                "CPU of the background thread in % of a core; involuntary context switches per "
                "second, and their ratio to those of the first profile; threads that wait for a "
                "core at a time; the background thread's longest oversleep in ms and its wake-ups "
                "per second.")


def _mean_of(values: Mapping[str, float]) -> float:
    return statistics.fmean(values.values())


def _cpu(profiles: Sequence[tuple[str, Mapping]]) -> Picture:
    figure = Figure(figsize=(max(5.0, 1.6 + 1.1 * len(profiles)), 3.6), layout="constrained")
    axis = figure.subplots()
    places = range(len(profiles))
    user, system = ([_mean(document, lambda rank: 100 * rate(rank, BACKGROUND, field))
                     for _, document in profiles] for field in ("user_seconds", "system_seconds"))
    axis.bar(places, user, color=USER, width=0.6, label="user")
    axis.bar(places, system, bottom=user, color=SYSTEM, width=0.6, label="system")
    top = 0.0
    for place, (_, document) in enumerate(profiles):
        dots = [cpu(rank, BACKGROUND) for rank in document["ranks"]]
        top = max(top, *dots)
        axis.plot([place] * len(dots), dots, "o", markersize=4, color="white",
                  markeredgecolor="black", label="single ranks" if place == 0 else None)
        axis.text(place, max(dots), f"{user[place] + system[place]:.3g} %\n", ha="center",
                  va="bottom", fontsize=SMALL_LETTERS, linespacing=0.5)
    _label(axis, profiles)
    axis.set_ylabel("background thread, % of a core")
    axis.set_ylim(0, 1.35 * max(top, 0.1))
    axis.legend(frameon=False, fontsize=SMALL_LETTERS, ncols=3, loc="upper center")
    finish(axis)
    return Picture(
        "compared-background", "CPU of the background thread",
        "The background thread's share of a core, mean of the ranks. Figures 6.10 and 6.18 of the "
        "source: 60 to 90 % in unmodified Horovod, about 6 % in TOPO.", figure)


def _by_class(profiles: Sequence[tuple[str, Mapping]], name: str, title: str, label: str,
              field: str, caption: str) -> Picture:
    figure = Figure(figsize=(max(5.5, 2.4 + 1.1 * len(profiles)), 3.8), layout="constrained")
    axis = figure.subplots()
    bottom = [0.0] * len(profiles)
    for class_ in classes_of([rank for _, document in profiles for rank in document["ranks"]]):
        heights = [_mean(document, lambda rank: rate(rank, class_, field)
                         if class_ in rank["steady"]["classes"] else 0.0)
                   for _, document in profiles]
        axis.bar(range(len(profiles)), heights, bottom=bottom, width=0.6, label=class_,
                 color=class_colour(class_))
        bottom = [a + b for a, b in zip(bottom, heights)]
    for place, height in enumerate(bottom):
        axis.text(place, height, _short(height), ha="center", va="bottom", fontsize=SMALL_LETTERS)
    _label(axis, profiles)
    axis.set_ylabel(label)
    axis.set_ylim(0, 1.1 * max(*bottom, 1e-3))
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False,
                  fontsize=SMALL_LETTERS)
    finish(axis)
    return Picture(name, title, caption, figure)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _label(axis, profiles: Sequence[tuple[str, Mapping]]) -> None:
    axis.set_xticks(range(len(profiles)), [name for name, _ in profiles])
    axis.set_xlim(-0.7, len(profiles) - 0.3)
