"""How the lab's pictures look: colours, lines and marks mean the same in all of them."""

from __future__ import annotations

from graph_analysis.palette import (
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY_BLUE,
    VERMILION,
    YELLOW,
)
from horovod_lab.bench.worker_job import LIMIT, YIELDING
from horovod_lab.profile import classes

MODE_COLOURS = {"off": GREY, "gs": ORANGE, "nbcs": SKY_BLUE, "scp": PURPLE, "topo": BLUE,
                "topo+scp": GREEN, "gs+nbcs": VERMILION}
# What a background thread does, in a timeline.
TIMELINE = {"asleep": "#9ecae1", "overslept": "#f2a33a", "spinning": "#d7301f",
            "napping": "#7fc8a9", "data": "#2f9e5b", "agreement": "#8a63d2",
            "allreduce": "#1f6fb4", "framework": "#b8bec6"}
MARKERS = "osD^vP*Xh"  # of series, beside their colours


def mode_colour(mode: str) -> str:
    """Modes that have none of their own share one."""
    return MODE_COLOURS.get(mode, YELLOW)


# Series of the benchmark

OTHER_SERIES = {LIMIT: "black", YIELDING.name: "#555555", "plain upstream": "#C8C8C8",
                "MultiWorkerMirroredStrategy": "#8B4513", "DDP": "#8B4513",
                "DDP, static graph": "#CD853F"}
PALER = "80"  # alpha, in hexadecimal


def series_colour(series: str) -> str:
    """A mode's own; paler where MPI waits in another way than usual with the mode."""
    mode, varied, _ = series.partition(", ")
    return OTHER_SERIES.get(series) or mode_colour(mode) + (PALER if varied else "")


def series_line(series: str) -> str:
    """The style of a line in Matplotlib's words."""
    return "--" if series == LIMIT else ":" if ", " in series else "-"


# Profiles

CLASS_COLOURS = {classes.BACKGROUND: BLUE, classes.SCHEDULING: GREEN, classes.INPUT: ORANGE,
                 classes.HELPERS: PURPLE, classes.MAIN: SKY_BLUE, classes.REST: GREY}
RANK_COLOURS = COLOURS
STATE_COLOURS = {"running": BLUE, "waiting": VERMILION, "asleep": "#E4E4E4"}
USER, SYSTEM = BLUE, ORANGE  # CPU time
SMALL_LETTERS = 9  # pt, the smallest size of letters


def class_colour(name: str) -> str:
    """Those of a user's own table share axis."""
    return CLASS_COLOURS.get(name, YELLOW)


def finish(*axes) -> None:
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=SMALL_LETTERS)
