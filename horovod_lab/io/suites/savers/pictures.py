"""The tables and the picture of the suite savers, from its JSON alone."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from graph_analysis.palette import COLOURS
from horovod_lab.io.savers import OUTCOMES, SAVERS, TIMED, TRAINING_SECONDS, VERSIONS
from horovod_lab.io.suites.savers.results import (
    AFTER,
    BEFORE,
    DURABLE,
    LOST,
    PHASES,
    is_loss,
    kill_losses,
    losses,
)
from horovod_lab.io.suites.savers.results import targets as judge
from horovod_lab.measuring.present import Grid, Picture, Section, number

TITLE = "Who loses what"
NOTE = ("States that differ, after a crash at any point of saving the new version: what the "
        "saver's own loader finds. Before the call has returned new and old are right, after it "
        "new alone. Killed: losses where nothing was lost of what was written.")
TIME_NOTE = (f"{VERSIONS} versions, each after {TRAINING_SECONDS} s of training: what saving takes "
             "of it in all, until the first is durable, and until all is.")


def section(document: dict[str, Any], targets: bool) -> Section:
    measured = {each["saver"]: each for each in document["measurements"]}
    there = {name: measured[name] for name in SAVERS
             if name in measured and "failed" not in measured[name]}
    grids = [_state_grid(measured), _call_grid(there)] if there.keys() & SAVERS.keys() else []
    timed = [each for name, each in measured.items() if name in TIMED and LOST in each]
    if timed:
        grids.append(Grid(f"{TITLE}: time", ("way", "lost s", "until durable s", "whole s"), [
            (TIMED[each["saver"]], *(number(each[key]) for key in (LOST, DURABLE, "whole_seconds")))
            for each in timed], TIME_NOTE))
    if targets:
        grids.append(Grid(f"{TITLE}: targets", ("target", "value", "met"), judge(document)))
    safe = [SAVERS[name].label for name, each in there.items() if not losses(each)]
    summary = f"{len(there)} ways to save a checkpoint; {', '.join(safe) or 'none'} lose nothing."
    return Section(TITLE, summary, grids, [_picture(there)] if there else [])


def _state_grid(measured: dict[str, Any]) -> Grid:
    rows = []
    for name, saver in SAVERS.items():
        each = measured.get(name)
        if each is None:
            continue
        if "failed" in each:
            rows.append((saver.label, "", "failed", each["failed"][:60], "", saver.promise))
            continue
        versions = "\n".join(f"{key} {value}" for key, value in each["versions"].items())
        rows.append((saver.label, versions, *(_in_words(each["states"][phase]) for phase in PHASES),
                     str(kill_losses(each)), saver.promise))
    return Grid(TITLE, ("saver", "versions", "before it has returned", "after", "killed",
                        "its documentation"), rows, NOTE)


def _in_words(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])


def _call_grid(there: dict[str, Any]) -> Grid:
    rows = []
    for name, each in there.items():
        for loss in each["losses"]:
            rows.append((SAVERS[name].label, f"{loss['phase']}: {loss['outcome']}",
                         "\n".join(loss["calls"]), loss["error"][:100]))
    return Grid(f"{TITLE}: what leads to it", ("saver", "found", "calls", "error"), rows,
                "Of each kind of loss the state that takes the least.")


def _picture(there: dict[str, Any]) -> Picture:
    colours = dict(zip(OUTCOMES, (COLOURS[2], COLOURS[0], "#bbbbbb", COLOURS[1], "#222222")))
    chart = Figure(figsize=(9, 1.2 + 0.4 * len(there)), layout="constrained")
    axes = chart.subplots(1, 2, sharey=True)
    labels = [SAVERS[name].label for name in there]
    for axis, phase, title in zip(axes, (BEFORE, AFTER), ("before it has returned",
                                                          "after it has returned")):
        left = [0.0] * len(there)
        for outcome in OUTCOMES:
            counts = [each["states"][phase] for each in there.values()]
            share = [100 * of[outcome] / max(1, sum(of.values())) for of in counts]
            axis.barh(labels, share, left=left, color=colours[outcome], label=outcome,
                      hatch="///" if is_loss(phase, outcome) else None, edgecolor="white")
            left = [before + width for before, width in zip(left, share)]
        axis.set_title(f"a crash {title}", fontsize=10)
        axis.set_xlabel("% of the states")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].invert_yaxis()
    handles, names = axes[0].get_legend_handles_labels()
    chart.legend(handles, names, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return Picture("io-savers", TITLE, f"{NOTE} Hatched: losses.", chart)
