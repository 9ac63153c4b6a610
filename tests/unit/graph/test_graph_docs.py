"""The examples of docs/how/graph-analysis.md, run as they stand there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from graph_analysis import analyze, read_dict

PAGE = Path(__file__).parents[3] / "docs" / "how" / "graph-analysis.md"


def blocks(start: str) -> list[str]:
    """What stands between two fences, the first of which is `start`."""
    return re.findall(rf"^```{start}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_program_prints_the_plan_that_the_page_shows(tmp_path):
    pytest.importorskip("horovod.tensorflow")
    program, = blocks("python")
    text, = blocks("text")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         cwd=tmp_path, check=False)
    assert (run.returncode, run.stdout.strip()) == (0, text.strip()), run.stderr


def test_the_graph_of_the_page_has_the_buckets_of_its_picture(tmp_path):
    """As a dictionary, and from a file."""
    text, = map(textwrap.dedent, blocks("json"))
    (tmp_path / "graph.json").write_text(text)
    for source in (json.loads(text), tmp_path / "graph.json", str(tmp_path / "graph.json")):
        region, = analyze(read_dict(source)).regions
        assert [[(slot.id, slot.name) for slot in bucket.slots]
                for bucket in region.plan.buckets] == [
            [(0, "Allreduce0"), (1, "Allreduce1")], [(2, "Allreduce2")],
            [(3, "Allreduce3"), (4, "Allreduce4")]]
