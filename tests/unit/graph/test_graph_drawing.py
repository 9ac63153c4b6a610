"""Pictures of plans."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")

from graph_analysis import analyze, read_dict
from graph_analysis.draw import draw


def analysis(tensors: int, threshold: int, depth: int = 10):
    """`depth` allreduces one after the other, again and again."""
    nodes = [{"name": f"tensor{number}", "op": "HorovodAllreduce",
              "inputs": [f"tensor{number - 1}"] if number % depth else [],
              "collective": {"shape": [4]}} for number in range(tensors)]
    return analyze(read_dict({"name": "step", "nodes": nodes,
                              "fetches": [node["name"] for node in nodes]}), threshold)


def texts(path) -> list[str]:
    """The text in an SVG file: matplotlib draws outlines and keeps the text as a comment."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    tree = ElementTree.parse(path, parser)
    return [element.text.strip() for element in tree.iter(ElementTree.Comment)]


def test_a_small_picture_has_every_name_bucket_and_arrow(tmp_path):
    path = tmp_path / "plan.svg"
    result = analysis(6, 32, depth=3)
    draw(result, path)
    words = texts(path)
    for number in range(6):
        assert f"tensor{number}" in words
    assert [text for text in words if text.startswith("bucket")] == [
        "bucket 0, 32 B", "bucket 1, 32 B", "bucket 2, 32 B"]
    assert "step: 6 tensors, 96 B, 3 buckets" in words


def test_a_large_picture_has_every_id(tmp_path):
    path = tmp_path / "plan.svg"
    draw(analysis(200, 64).regions[0].plan, path)
    assert {str(number) for number in range(200)} <= set(texts(path))


def test_a_plan_with_one_bucket_of_200_tensors_is_not_one_line(tmp_path):
    path = tmp_path / "plan.svg"
    draw(analysis(200, 1 << 20, depth=1), path)
    width, height = (float(ElementTree.parse(path).getroot().get(side).removesuffix("pt"))
                     for side in ("width", "height"))
    assert 0.5 < width / height < 3


def test_nothing_to_draw_is_an_error(tmp_path):
    empty = analyze(read_dict({"nodes": [{"name": "a", "op": "Op"}], "fetches": ["a"]}))
    with pytest.raises(ValueError, match="nothing to draw"):
        draw(empty, tmp_path / "plan.svg")


def test_without_matplotlib_the_error_says_what_to_do(tmp_path):
    code = ("import sys; sys.modules['matplotlib'] = None\n"
            "from graph_analysis import Plan\n"
            "from graph_analysis.draw import draw\n"
            "try: draw(Plan('x', ()), 'x.svg')\n"
            "except ImportError as error: print(error)")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install matplotlib" in run.stdout
