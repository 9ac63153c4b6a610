"""Graphs as dictionaries and JSON files: from the bytes, a graph with damages, or just text."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import fuzz_plan
from draw import Draw
from graph_input import graph_of

from graph_analysis import Graph, GraphError, analyze, read_dict
from horovod_opt.planning import plan_command

VALUES = {"HorovodSize": 2, "HorovodProcessSetIncluded": 1}


def target(data: bytes) -> None:
    """Either GraphError with a text, or regions in which every collective has one place."""
    draw = Draw(data)
    if draw.one_in(4):
        as_file(data[1:])
        return
    document = graph_of(draw)
    threshold, inline = 8 * draw.below(9), not draw.one_in(3)
    try:
        check(read_dict(document), threshold, inline)
    except GraphError as error:
        assert str(error)
    as_file(json.dumps(document).encode())


def as_file(content: bytes) -> None:
    """As horovod-opt plan reads it: regions, or one error that names the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json"
        path.write_bytes(content)
        try:
            plan_command.regions_of(path)
        except plan_command.CommandError as error:
            assert str(path) in str(error)


def check(graph: Graph, threshold: int, inline: bool) -> None:
    for region in analyze(graph, threshold, VALUES, inline).regions:
        if region.plan is None:
            assert region.reason
            continue
        fuzz_plan.check(region.plan)
        assert all(len(bucket.slots) == 1 or bucket.nbytes <= threshold
                   for bucket in region.plan.buckets)
