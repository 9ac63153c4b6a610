"""What colours mean: the same in every picture."""

from __future__ import annotations

from graph_analysis.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY_BLUE, VERMILION, YELLOW

MODES = {"off": GREY, "gs": ORANGE, "nbcs": SKY_BLUE, "scp": PURPLE, "topo": BLUE,
         "topo+scp": GREEN, "gs+nbcs": VERMILION}
# What a background thread does, in a timeline.
TIMELINE = {"asleep": "#9ecae1", "overslept": "#f2a33a", "spinning": "#d7301f",
            "napping": "#7fc8a9", "data": "#2f9e5b", "agreement": "#8a63d2",
            "allreduce": "#1f6fb4", "framework": "#b8bec6"}
MARKERS = "osD^vP*Xh"  # of series, beside their colours


def mode_colour(mode: str) -> str:
    """Modes that have none of their own share one."""
    return MODES.get(mode, YELLOW)
