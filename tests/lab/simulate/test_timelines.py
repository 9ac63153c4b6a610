"""The pictures of the modes are what their script draws."""

import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parents[3] / "docs"
script = runpy.run_path(str(DOCS / "images" / "draw_timelines.py"))


@pytest.mark.parametrize("mode", script["TITLES"])
def test_picture_is_up_to_date(mode):
    figure = script["draw"](mode)
    ElementTree.fromstring(figure)
    committed = (DOCS / "images" / f"timeline-{mode}.svg").read_text()
    assert committed == figure, "run: python docs/images/draw_timelines.py"


def spinning(mode: str) -> float:
    return sum(segment.end - segment.start for thread in script["simulate"](mode)
               for segment in thread if segment.kind == "spin")


def test_pictures_show_what_the_modes_do():
    assert spinning("nbcs") == 0
    assert spinning("gs") == script["OVERSLEEP"]  # one cycle's worth
    assert spinning("off") > 3 * spinning("gs")
