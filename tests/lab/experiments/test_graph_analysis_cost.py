"""The experiment that measures reading and analysing."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("matplotlib")

import graph_analysis_cost

from graph_analysis import analyze

# Parameters that are trained: of He et al.'s networks as published with torchvision, and of the
# reference implementations in Caffe.
PARAMETERS = {"ResNet18": 11_689_512, "ResNet34": 21_797_672, "AlexNet": 60_965_224,
              "GoogLeNet": 6_998_552}


@pytest.mark.parametrize("nodes", [100, 1_000, 10_000])
def test_the_synthetic_step_has_a_layer_for_every_eight_nodes(nodes):
    graph = graph_analysis_cost.synthetic(nodes)
    analysis = analyze(graph, threshold=1 << 20)
    plan = analysis.regions[0].plan
    assert abs(len(graph) - nodes) <= 8 and analysis.nodes == len(graph)
    assert len(plan.slots) == nodes // 8
    assert {slot.after for slot in plan.slots} == {()}
    # 16 KiB each; the gradient of the last layer is there first.
    assert {len(bucket.slots) for bucket in plan.buckets[:-1]} <= {64}
    assert plan.slots[0].name == f"allreduce{nodes // 8 - 1}"


@pytest.mark.parametrize("name", PARAMETERS)
def test_networks_are_those_of_their_papers(name):
    pytest.importorskip("horovod.tensorflow")
    from horovod_lab.bench.workers.models import NETWORKS
    model = NETWORKS[name]()
    assert sum(variable.value.shape.num_elements()
               for variable in model.trainable_variables) == PARAMETERS[name]


def test_every_network_of_the_table_is_there():
    pytest.importorskip("horovod.tensorflow")
    from horovod_lab.bench.workers.models import NETWORKS
    assert list(NETWORKS) == list(graph_analysis_cost.TABLE_6_1)


def test_the_program_writes_table_file_and_picture(tmp_path, monkeypatch, capsys):
    pytest.importorskip("horovod.tensorflow")
    monkeypatch.setattr(graph_analysis_cost, "SIZES", (100, 200))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    assert graph_analysis_cost.STUDY.main(
        ["--only", "AlexNet", "--repeats", "2", "--output", str(tmp_path)]) == 0
    folder = tmp_path / "graph_analysis_cost"
    document = json.loads((folder / "traversal.json").read_text())
    row, = document["networks"]
    assert (row["network"], row["collectives"], row["unplanned"]) == ("AlexNet", 16, 0)
    assert row["source"] == {"nodes": 655, "edges": 893, "ms": 6}
    assert [len(series["all_ms"]) for series in document["synthetic"]] == [2, 2]
    assert row["read_ms"] == min(row["all_read_ms"])
    for name in ("traversal.png", "beside-the-source.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "AlexNet" in printed and "Table 6.1" in printed and "against the smallest" in printed


@pytest.mark.parametrize("arguments, message", [
    (["--only", "LeNet"], "'LeNet' is not one of ResNet18"),
    (["--repeats", "0"], "'0' is not a whole number"),
])
def test_wrong_arguments_are_refused(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        graph_analysis_cost.STUDY.main([*arguments, "--output", str(tmp_path)])
    assert message in capsys.readouterr().err
