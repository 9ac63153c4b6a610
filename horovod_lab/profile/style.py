"""What the pictures of profiles have in common."""

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
from horovod_lab.profile import classes

CLASSES = {classes.BACKGROUND: BLUE, classes.SCHEDULING: GREEN, classes.INPUT: ORANGE,
           classes.HELPERS: PURPLE, classes.MAIN: SKY_BLUE, classes.REST: GREY}
RANKS = COLOURS
STATES = {"running": BLUE, "waiting": VERMILION, "asleep": "#E4E4E4"}
USER, SYSTEM = BLUE, ORANGE  # CPU time
SMALL = 9  # pt, the smallest size of letters


def class_colour(name: str) -> str:
    """Those of a user's own table share one."""
    return CLASSES.get(name, YELLOW)


def finish(*axes) -> None:
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(labelsize=SMALL)
