"""Reading TensorFlow's graphs from messages and files."""

from __future__ import annotations

import pytest

tf = pytest.importorskip("tensorflow")
hvd = pytest.importorskip("horovod.tensorflow")

from traced_graphs import nested_graph, trace, training_step

from graph_analysis import GraphError, analyze, read_func_graph, read_graph_def
from horovod_opt.tracing import two_ranks


@pytest.fixture(autouse=True)
def _two_ranks():
    with two_ranks():
        yield


def test_a_graph_def_with_shapes_gives_the_same_plan_as_the_graph(tmp_path):
    step = training_step()
    concrete = trace(step)
    plan = analyze(read_func_graph(concrete.graph)).regions[0].plan
    fetches = [tensor.name for tensor in concrete.graph.outputs] + [
        operation.name for operation in concrete.graph.control_outputs]
    message = concrete.graph.as_graph_def(add_shapes=True)
    (tmp_path / "graph.pb").write_bytes(message.SerializeToString())
    tf.io.write_graph(message, str(tmp_path), "graph.pbtxt")
    for source in (message, tmp_path / "graph.pb", str(tmp_path / "graph.pbtxt")):
        for names in (fetches, None):
            read = analyze(read_graph_def(source, names)).regions[0].plan
            assert (read.hash, read.buckets) == (plan.hash, plan.buckets)


def fetches_of(graph) -> list[str]:
    return [tensor.name for tensor in graph.outputs] + [
        operation.name for operation in graph.control_outputs]


def test_shapes_that_a_graph_def_does_not_say_are_inferred(tmp_path):
    """In the graph, in the branches around the gradients and in functions that it calls."""
    @tf.function(autograph=False)
    def callee(x):
        return hvd.allreduce(x @ tf.ones([4, 5]), op=hvd.Sum, name="in_the_call")

    @tf.function(autograph=False)
    def with_a_call(x):
        return callee(tf.concat([x, x], axis=0)) + 1.0

    for graph in (trace(training_step()).graph,
                  trace(training_step(compression=hvd.Compression.fp16)).graph,
                  trace(with_a_call).graph):
        plan = analyze(read_func_graph(graph)).regions[0].plan
        message = graph.as_graph_def()
        assert not [node for node in message.node if "_output_shapes" in node.attr]
        (tmp_path / "graph.pb").write_bytes(message.SerializeToString())
        for source in (message, tmp_path / "graph.pb"):
            read = analyze(read_graph_def(source, fetches_of(graph))).regions[0].plan
            assert (read.hash, read.buckets) == (plan.hash, plan.buckets)


def test_a_shape_that_does_not_follow_is_said():
    @tf.function(autograph=False)
    def callee(x):
        return hvd.allreduce(tf.sin(x), op=hvd.Sum, name="in_the_call")

    message = trace(tf.function(lambda x: callee(x) * 2.0, autograph=False)).graph.as_graph_def()
    for function in message.library.function:
        for attributes in function.arg_attr.values():
            attributes.attr.pop("_output_shapes", None)
    region, = analyze(read_graph_def(message)).regions
    assert [reason for _, _, reason in region.unplanned] == [
        "the graph does not say its shape, and TensorFlow cannot tell: it does not follow from "
        "what the graph says"]


def test_a_shape_that_tensorflow_cannot_infer_is_said():
    @tf.function(autograph=False)
    def reduce(x):
        return hvd.allreduce(tf.sin(x), op=hvd.Sum, name="named")

    message = trace(reduce).graph.as_graph_def()
    message.node.add(name="odd", op="NoSuchOperation")
    region, = analyze(read_graph_def(message)).regions
    assert region.plan is None
    (_, _, reason), = region.unplanned
    assert reason.startswith("the graph does not say its shape, and TensorFlow cannot tell: ")
    assert "NoSuchOperation" in reason


FUNCTION_AS_TYPE = """
node { name: "x" op: "Placeholder" } node { name: "c" op: "outer" input: "x" }
node { name: "last" op: "HorovodAllreduce" input: "c" attr { key: "T" value { type: DT_FLOAT } }
  attr { key: "_output_shapes" value { list { shape { dim { size: 4 } } } } } }
library {
  function {
    signature { name: "outer" input_arg { name: "x" } output_arg { name: "o" } }
    node_def { name: "i" op: "inner" input: "x" }
    ret { key: "o" value: "i:second:0" } }
  function {
    signature { name: "inner" input_arg { name: "x" }
                output_arg { name: "first" } output_arg { name: "second" } }
    node_def { name: "a" op: "HorovodAllreduce" input: "x" }
    node_def { name: "b" op: "HorovodAllgather" input: "x" }
    ret { key: "first" value: "a:sum:0" } ret { key: "second" value: "b:output:0" } } }
"""


def test_the_type_of_a_call_may_be_the_function(tmp_path):
    (tmp_path / "graph.pbtxt").write_text(FUNCTION_AS_TYPE)
    region, = analyze(read_graph_def(tmp_path / "graph.pbtxt", ["last"])).regions
    # `last` reads the second output alone, so the first does not run.
    assert [tensor.name for tensor in region.unplanned] == ["c/i/b", "last"]


CONSTANTS = """
node { name: "x" op: "Placeholder" }
node { name: "p" op: "Const" attr { key: "value" value { tensor { %s } } } }
node { name: "c" op: "If" input: "p" input: "x"
  attr { key: "then_branch" value { func { name: "f" } } }
  attr { key: "else_branch" value { func { name: "g" } } } }
library {
  function {
    signature { name: "f" input_arg { name: "x" } output_arg { name: "o" } }
    node_def { name: "then" op: "HorovodAllgather" input: "x" }
    ret { key: "o" value: "then:output:0" } }
  function {
    signature { name: "g" input_arg { name: "x" } output_arg { name: "o" } }
    node_def { name: "else" op: "HorovodAllgather" input: "x" }
    ret { key: "o" value: "else:output:0" } } }
"""


@pytest.mark.parametrize("tensor, branch", [
    ("dtype: DT_BOOL bool_val: true", "c/then"),
    ("dtype: DT_BOOL bool_val: false", "c/else"),
    ("dtype: DT_BOOL", "c/else"),
    ("dtype: DT_INT32 int_val: -1", "c/then"),
    ("dtype: DT_INT64", "c/else"),
    (r'dtype: DT_INT32 tensor_content: "\000\001\000\000"', "c/then"),
    (r'dtype: DT_INT64 tensor_content: "\000\000\000\000\000\000\000\000"', "c/else"),
    ("dtype: DT_FLOAT float_val: 0.5", "c/then"),
    ("dtype: DT_DOUBLE", "c/else"),
    ("dtype: DT_BOOL tensor_shape { dim { size: 1 } } bool_val: true", None),
    ("dtype: DT_BOOL tensor_shape { unknown_rank: true } bool_val: true", None),
    ('dtype: DT_STRING string_val: "x"', None),
])
def test_constants(tmp_path, tensor, branch):
    (tmp_path / "graph.pbtxt").write_text(CONSTANTS % tensor)
    regions = analyze(read_graph_def(tmp_path / "graph.pbtxt", ["c"])).regions
    unplanned = {region.name: [entry.name for entry in region.unplanned] for region in regions}
    assert unplanned == ({"graph": [branch]} if branch else {
        "graph": [], "c/then": ["then"], "c/else": ["else"]})


SWITCH = """
node { name: "x" op: "Placeholder" } node { name: "c" op: "PartitionedCall" input: "x"
  attr { key: "f" value { func { name: "f" } } } }
library { function {
  signature { name: "f" input_arg { name: "x" } output_arg { name: "o" } }
  node_def { name: "p" op: "Const" attr { key: "value" value { tensor { dtype: DT_BOOL } } } }
  node_def { name: "s" op: "Switch" input: "x" input: "p:output:0" }
  node_def { name: "no" op: "HorovodAllgather" input: "s:output_false:0" }
  node_def { name: "yes" op: "HorovodAllgather" input: "s:output_true:0" }
  node_def { name: "m" op: "Merge" input: "no:output:0" input: "yes:output:0" }
  ret { key: "o" value: "m:output:0" } } }
"""


def test_the_outputs_of_a_switch_have_names_in_a_function(tmp_path):
    (tmp_path / "graph.pbtxt").write_text(SWITCH)
    region, = analyze(read_graph_def(tmp_path / "graph.pbtxt", ["c"])).regions
    assert [entry.name for entry in region.unplanned] == ["c/no"]


def test_allreduces_in_a_circle_are_reported(tmp_path):
    (tmp_path / "graph.pbtxt").write_text("".join(
        f'node {{ name: "{name}" op: "HorovodAllreduce" input: "{before}" }}'
        for name, before in ("ab", "ba")))
    with pytest.raises(GraphError, match="the graph has a cycle"):
        analyze(read_graph_def(tmp_path / "graph.pbtxt", ["a"]))


def test_an_allgather_does_not_hand_its_shape_on():
    @tf.function
    def reduce(x):
        return hvd.allreduce(hvd.allgather(x, name="g"), op=hvd.Sum, name="r")
    message = trace(reduce).graph.as_graph_def()
    shape = message.node[0].attr["_output_shapes"].list.shape.add()
    for size in (2, 4):
        shape.dim.add().size = size
    region, = analyze(read_graph_def(message)).regions
    reasons = {entry.name: entry.reason for entry in region.unplanned}
    assert reasons["r"] == "its shape is not static"


def test_a_saved_model(tmp_path):
    class Step(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((2, 4))])
        def __call__(self, x):
            return hvd.allreduce(x, op=hvd.Sum, name="saved")
    tf.saved_model.save(Step(), str(tmp_path))
    graph = read_graph_def(tmp_path)
    slots = [slot for region in analyze(graph).regions if region.plan for slot in region.plan.slots]
    assert slots and {slot.name.split("/")[-1] for slot in slots} == {"saved"}
    assert {slot.shape for slot in slots} == {(2, 4)}


@pytest.mark.parametrize("name, content", [("graph.pb", b"\xff\xff"), ("graph.pbtxt", b"node {"),
                                           ("graph.pbtxt", b"\xff"), ("saved_model.pb", b"")])
def test_a_file_that_is_no_graph_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(GraphError, match=name):
        read_graph_def(tmp_path / name)


def test_a_fetch_that_is_not_there_is_refused():
    with pytest.raises(GraphError, match="nowhere"):
        read_graph_def(nested_graph().as_graph_def(), ["nowhere:0"])
