"""`horovod-opt plan` on saved graphs, on scripts and on what is neither."""

from __future__ import annotations

import itertools
import json
import time
from types import SimpleNamespace

import pytest

from graph_analysis import analyze, read_dict
from horovod_opt.cli import main
from horovod_opt.planning import plan_command
from horovod_opt.planning.plan_command import CommandError, Job, regions_of

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


def test_a_table_and_nothing_else(saved, tmp_path, capsys):
    assert main(["plan", str(saved(GRAPH))]) == 0
    out = capsys.readouterr().out
    assert "why the bucket" in out and "Written" not in out
    assert [file.name for file in tmp_path.iterdir()] == ["graph.json"]


def test_words_and_a_picture(saved, capsys, tmp_path):
    picture = tmp_path / "picture.png"
    assert main(["plan", "--explain", "--svg", str(picture), str(saved(GRAPH))]) == 0
    out = capsys.readouterr().out
    assert "Bucket 0" in out and f"Written: {picture}" in out
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_json_reads_back_as_a_plan(saved, capsys):
    assert main(["plan", "--json", str(saved(GRAPH))]) == 0
    plan, = json.loads(capsys.readouterr().out)
    region, = regions_of(saved(plan, "plan.json"), threshold=1)
    assert region.plan == analyze(read_dict(GRAPH)).regions[0].plan


def test_threshold(saved, capsys):
    assert main(["plan", "--json", "--threshold", "16", str(saved(GRAPH))]) == 0
    plan, = json.loads(capsys.readouterr().out)
    assert len(plan["buckets"]) == 3


def test_the_threshold_of_a_job_with_this_environment(saved, monkeypatch):
    region, = regions_of(saved(GRAPH))
    assert [len(bucket.slots) for bucket in region.plan.buckets] == [2, 1]
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "16")
    region, = regions_of(saved(GRAPH))
    assert [len(bucket.slots) for bucket in region.plan.buckets] == [1, 1, 1]
    region, = regions_of(saved(GRAPH), threshold=32)
    assert [len(bucket.slots) for bucket in region.plan.buckets] == [2, 1]


def test_a_threshold_with_a_unit_is_refused(saved, monkeypatch, capsys):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "16KB")
    assert main(["plan", str(saved(GRAPH))]) == 2
    assert "HOROVOD_FUSION_THRESHOLD='16KB'" in capsys.readouterr().err
    assert main(["plan", "--threshold", "16", str(saved(GRAPH))]) == 0


def test_many_negotiated_collectives_are_one_line(saved, capsys):
    names = [f"gather{number}" for number in range(50)]
    nodes = [{"name": name, "op": "HorovodAllgather", "inputs": []} for name in names]
    assert main(["plan", str(saved({"nodes": nodes, "fetches": names}))]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert ("0-49 50 tensors, such as gather0: negotiated, "
            "HorovodAllgather has a plan of its own once it recurs") in out
    assert out.count("negotiated") == 1


def test_a_picture_of_nothing_is_not_written(saved, tmp_path, capsys):
    nodes = [{"name": "g", "op": "HorovodAllgather"}]
    picture = tmp_path / "picture.svg"
    saved({"nodes": nodes, "fetches": ["g"]})
    assert main(["plan", "--svg", str(picture), "graph.json"]) == 0
    assert f"{picture} is not written: nothing is planned" in capsys.readouterr().err
    assert not picture.exists()


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
        regions_of(script, job=Job(1))


# Two functions, a checkpoint after a step of each, and another when it is asked to end.
SCRIPT = """
import pathlib, signal, sys, time
import tensorflow as tf
import horovod.tensorflow as hvd
hvd.init()
def save(*_):
    pathlib.Path("checkpoint").write_text("trained")
signal.signal(signal.SIGTERM, save)
inner = tf.function(lambda x: hvd.allreduce(x, name=sys.argv[1], op=hvd.Sum))
step = tf.function(lambda x: 2.0 * inner(x))
other = tf.function(lambda x: hvd.allreduce(x, name="other", op=hvd.Sum))
hvd.broadcast_variables([tf.Variable(1.0)], 0)
pathlib.Path("begun").touch()
for function in (step, other):
    function(tf.ones([3]))
    save()
pathlib.Path("quiet").touch()
time.sleep(1000)
"""


def test_a_script_ends_before_its_first_step(saved, tmp_path):
    pytest.importorskip("horovod.tensorflow")
    regions = regions_of(saved(SCRIPT, "train.py"), job=Job(2, ["gradient"]))
    planned = [slot.name for region in regions if region.plan for slot in region.plan.slots]
    assert planned == ["gradient"]
    assert (tmp_path / "begun").exists()
    assert not (tmp_path / "checkpoint").exists()


def test_a_script_may_train_on_for_its_other_functions(saved, tmp_path, monkeypatch):
    pytest.importorskip("horovod.tensorflow")
    clock = itertools.count(0, 2 * plan_command.QUIET_SECONDS)

    def monotonic() -> float:
        """It stands still until the script has shown all that it does."""
        return next(clock) if (tmp_path / "quiet").exists() else 0.0

    monkeypatch.setattr(plan_command, "time",
                        SimpleNamespace(monotonic=monotonic, sleep=time.sleep))
    regions = regions_of(saved(SCRIPT, "train.py"), job=Job(1, ["gradient"], train=True))
    planned = [slot.name for region in regions if region.plan for slot in region.plan.slots]
    assert planned == ["gradient", "other"]
    assert (tmp_path / "checkpoint").exists()


TORCH_SCRIPT = """
import pathlib, torch
import horovod.torch as hvd
hvd.init()
model = torch.nn.Linear(2, 3)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
pathlib.Path("checkpoint").touch()
"""


def test_pytorchs_first_step(saved, tmp_path):
    pytest.importorskip("horovod.torch")
    region, = regions_of(saved(TORCH_SCRIPT, "train.py"), threshold=8)
    assert [bucket.nbytes for bucket in region.plan.buckets] == [12, 24]
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize("options, says", [
    ([], "is run on 2 ranks and ended before its first planned step."),
    (["-np", "3", "--train"], "is run on 3 ranks and trains until it has shown no new plan"),
])
def test_a_script_is_announced(saved, capsys, monkeypatch, options, says):
    monkeypatch.setattr(plan_command, "_of_script", lambda *_: [])
    script = saved("", "train.py")
    assert main(["plan", *options, str(script)]) == 0
    error = capsys.readouterr().err
    assert f"horovod-opt plan: {script} {says}" in error and "overwrite its checkpoints" in error
