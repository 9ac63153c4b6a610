"""`horovod-opt plan` on saved graphs, on scripts and on what is neither."""

from __future__ import annotations

import json

import pytest

from graph_analysis import analyze, read_dict
from horovod_opt.cli import main
from horovod_opt.plan_command import CommandError, regions_of

GRAPH = {
    "nodes": [
        {"name": "x", "op": "Placeholder"},
        *({"name": name, "op": "HorovodAllreduce", "inputs": [source],
           "collective": {"shape": [4], "dtype": "float32", "reduce_op": 1}}
          for name, source in (("a", "x"), ("b", "x"), ("c", "a"))),
    ],
    "fetches": ["b", "c"],
}


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def saved(content: object, name: str = "graph.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return saved


def test_table_and_picture_of_a_graph(saved, tmp_path, capsys):
    assert main(["plan", str(saved(GRAPH))]) == 0
    out = capsys.readouterr().out
    assert "why the bucket" in out and "Written: graph.svg" in out
    assert (tmp_path / "graph.svg").read_text().lstrip().startswith("<?xml")


def test_words(saved, capsys, tmp_path):
    picture = tmp_path / "picture.png"
    assert main(["plan", "--explain", "--svg", str(picture), str(saved(GRAPH))]) == 0
    assert "bucket" in capsys.readouterr().out.lower()
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_json_reads_back_as_a_plan(saved, capsys):
    assert main(["plan", "--json", str(saved(GRAPH))]) == 0
    plan, = json.loads(capsys.readouterr().out)
    region, = regions_of(saved(plan, "plan.json"), [], 1, [], 2)
    assert region.plan == analyze(read_dict(GRAPH), 2**22).regions[0].plan


def test_threshold(saved, capsys):
    assert main(["plan", "--json", "--threshold", "16", str(saved(GRAPH))]) == 0
    plan, = json.loads(capsys.readouterr().out)
    assert len(plan["buckets"]) == 3


@pytest.mark.parametrize("name, content, says", [
    ("graph.json", "{", "is not JSON"),
    ("graph.json", '"graph.json"', "neither a plan nor a graph"),
    ("graph.json", {"nodes": [{"name": "a"}]}, "op"),
    ("plan.json", {"buckets": 3}, "'format' is missing"),
    ("graph.pb", "nonsense", "graph.pb"),
])
def test_bad_files(saved, capsys, name, content, says):
    path = saved(content, name)
    assert main(["plan", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"horovod-opt plan: {path}") and says in error


def test_no_such_file(capsys):
    assert main(["plan", "/no/such/file.pb"]) == 2
    assert "there is no /no/such/file.pb" in capsys.readouterr().err


def test_a_script_without_collectives(saved):
    pytest.importorskip("horovod.tensorflow")
    script = saved("print('hello from', __name__)", "script.py")
    with pytest.raises(CommandError, match="(?s)no graph with collectives.*status 0.*hello from"):
        regions_of(script, [], 1, [], 1)


SCRIPT = """
import sys, time
import tensorflow as tf
import horovod.tensorflow as hvd
hvd.init()
step = tf.function(lambda x: hvd.allreduce(x, name=sys.argv[1], op=hvd.Sum))
step(tf.ones([3]))
time.sleep(1000)
"""


def test_a_script_that_does_not_end(saved):
    pytest.importorskip("horovod.tensorflow")
    region, = regions_of(saved(SCRIPT, "train.py"), [], 1, ["gradient"], 1)
    assert [slot.name for slot in region.plan.slots] == ["gradient"]
