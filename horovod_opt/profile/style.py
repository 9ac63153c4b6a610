"""What the pictures of profiles have in common."""

from __future__ import annotations

from horovod_opt.measuring.present import COLOURS, GREY
from horovod_opt.profile import classes

CLASSES = {classes.BACKGROUND: "#0072B2", classes.SCHEDULING: "#009E73", classes.INPUT: "#E69F00",
           classes.HELPERS: "#CC79A7", classes.MAIN: "#56B4E9", classes.REST: GREY}
RANKS = COLOURS
STATES = {"running": "#0072B2", "waiting": "#D55E00", "asleep": "#E4E4E4"}
SMALL = 9  # pt, the smallest size of letters


def class_colour(name: str) -> str:
    """Those of a user's own table share one."""
    return CLASSES.get(name, "#F0E442")


def finish(*axes) -> None:
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(labelsize=SMALL)
