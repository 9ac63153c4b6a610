"""Reading TensorFlow's graphs, in memory and from files."""

from __future__ import annotations

import subprocess
import sys

import pytest

tf = pytest.importorskip("tensorflow")
hvd = pytest.importorskip("horovod.tensorflow")

from graph_analysis import GraphError, analyze, read_func_graph, read_graph, read_graph_def
from horovod_opt.tracing import two_ranks

ELASTIC = {"HorovodSize": 2, "HorovodProcessSetIncluded": 1}


@pytest.fixture(autouse=True)
def _two_ranks():
    with two_ranks():
        yield


def training_step(compression=None, layers: int = 3):
    weights = [tf.Variable(tf.ones([4, 4])) for _ in range(layers)]

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(y @ weight)
            loss = tf.reduce_sum(y)
        tape = hvd.DistributedGradientTape(
            tape, compression=compression or hvd.Compression.none)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(gradient)
        return loss
    step.weights = weights  # a function holds its variables only weakly
    return step


def traced(function, *specs):
    return function.get_concrete_function(*specs or [tf.TensorSpec((2, 4))])


def buckets(analysis) -> list[list[tuple]]:
    return [[(slot.shape, slot.dtype, slot.reduce_op) for slot in bucket.slots]
            for bucket in analysis.regions[0].plan.buckets]


def test_a_training_step():
    step = training_step()
    graph = read_func_graph(traced(step).graph)
    analysis = analyze(graph, inline_calls=False)
    region, = analysis.regions
    assert buckets(analysis) == [[((4, 4), "float32", 0)] * 3]
    assert [slot.after for slot in region.plan.slots] == [(), (), ()]
    assert (region.unplanned, region.reason, analysis.concurrent_calls) == ((), "", ())
    # The gradient of the last layer is there first.
    order = [slot.name.split("/")[1] for slot in region.plan.slots]
    assert order == ["cond_2", "cond_1", "cond"]
    assert [slot.key for slot in region.plan.slots] == [0, 0, 0]


def test_another_batch_size_gives_the_same_hash():
    step = training_step()
    first, second = (analyze(read_func_graph(traced(step, tf.TensorSpec((n, 4))).graph))
                     for n in (2, 3))
    assert first.regions[0].plan.hash == second.regions[0].plan.hash


def test_a_graph_def_with_shapes_gives_the_same_plan_as_the_graph(tmp_path):
    step = training_step()
    concrete = traced(step)
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
    def called(x):
        return hvd.allreduce(x @ tf.ones([4, 5]), op=hvd.Sum, name="in_the_call")

    @tf.function(autograph=False)
    def with_a_call(x):
        return called(tf.concat([x, x], axis=0)) + 1.0

    for graph in (traced(training_step()).graph,
                  traced(training_step(compression=hvd.Compression.fp16)).graph,
                  traced(with_a_call).graph):
        plan = analyze(read_func_graph(graph)).regions[0].plan
        message = graph.as_graph_def()
        assert not [node for node in message.node if "_output_shapes" in node.attr]
        (tmp_path / "graph.pb").write_bytes(message.SerializeToString())
        for source in (message, tmp_path / "graph.pb"):
            read = analyze(read_graph_def(source, fetches_of(graph))).regions[0].plan
            assert (read.hash, read.buckets) == (plan.hash, plan.buckets)


def test_a_shape_that_does_not_follow_is_said():
    @tf.function(autograph=False)
    def called(x):
        return hvd.allreduce(tf.sin(x), op=hvd.Sum, name="in_the_call")

    message = traced(tf.function(lambda x: called(x) * 2.0, autograph=False)).graph.as_graph_def()
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

    message = traced(reduce).graph.as_graph_def()
    message.node.add(name="odd", op="NoSuchOperation")
    region, = analyze(read_graph_def(message)).regions
    assert region.plan is None
    (_, _, reason), = region.unplanned
    assert reason.startswith("the graph does not say its shape, and TensorFlow cannot tell: ")
    assert "NoSuchOperation" in reason


def test_a_tf_graph_with_fetches_gives_the_same_plan_as_the_function():
    step = training_step()
    concrete = traced(step)
    plan = analyze(read_func_graph(concrete.graph)).regions[0].plan
    updates = concrete.graph.control_outputs
    graph = read_graph(concrete.graph, [concrete.outputs[0], *updates])
    assert analyze(graph).regions[0].plan.hash == plan.hash
    only = read_graph(concrete.graph, [
        next(update for update in updates if update.type == "AssignSubVariableOp")])
    assert len(analyze(only).regions[0].plan.slots) == 1


def test_bodies_may_be_graphs_or_function_defs_and_are_read_once_and_only_if_taken():
    step = training_step(compression=hvd.Compression.fp16)
    graph = traced(step).graph
    messages = {function.signature.name: function
                for function in graph.as_graph_def().library.function}
    asked = []

    def bodies(name: str):
        asked.append(name)
        return messages.get(name)
    plan = analyze(read_func_graph(graph, bodies)).regions[0].plan
    assert plan.hash == analyze(read_func_graph(graph)).regions[0].plan.hash
    assert {slot.dtype for slot in plan.slots} == {"float16"}
    assert len(asked) == len(set(asked))
    assert not [name for name in asked if "cond_false" in name]
    assert analyze(read_func_graph(graph, lambda name: None)).regions[0].plan is None


def test_the_predicate_of_elastic_jobs(monkeypatch):
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    step = training_step()
    graph = read_func_graph(traced(step).graph)
    # Horovod's queries have side effects, so TensorFlow runs these branches one after the other.
    assert buckets(analyze(graph, values=ELASTIC)) == [[((4, 4), "float32", 0)]] * 3
    main, *regions = analyze(graph).regions
    assert (main.plan, [len(region.plan.slots) for region in regions]) == (None, [1, 1, 1])
    alone = analyze(graph, values={**ELASTIC, "HorovodSize": 1})
    assert [region.reason for region in alone.regions] == ["it has no collectives"]


def test_attributes_of_an_allreduce():
    @tf.function
    def reduce(x):
        with tf.device("/device:CPU:0"):
            return hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=0.25,
                                 name="named")
    slot, = analyze(read_func_graph(traced(reduce).graph)).regions[0].plan.slots
    assert (slot.name, slot.shape, slot.dtype, slot.reduce_op) == ("named", (2, 4), "float32", 1)
    assert (slot.prescale, slot.postscale, slot.device) == (0.5, 0.25, "/device:CPU:0")
    assert slot.nbytes == 32


def test_the_numbers_of_reduce_operations_are_horovods():
    from graph_analysis.reductions import ADASUM, REDUCE_OPS
    assert ADASUM == hvd.Adasum
    assert REDUCE_OPS == {hvd.Average: "average", hvd.Sum: "sum", hvd.Adasum: "Adasum",
                          hvd.Min: "min", hvd.Max: "max", hvd.Product: "product"}


def test_the_key_is_the_attribute_opt_key():
    @tf.function
    def reduce(x):
        return hvd.allreduce(x, op=hvd.Sum, name="named")
    message = traced(reduce).graph.as_graph_def(add_shapes=True)
    node, = [node for node in message.node if node.op == "HorovodAllreduce"]
    node.attr["opt_key"].i = 1 << 40
    slot, = analyze(read_graph_def(message)).regions[0].plan.slots
    assert slot.key == 1 << 40


def test_without_a_static_shape_a_tensor_stays_negotiated():
    @tf.function
    def reduce(x):
        return hvd.allreduce(x, op=hvd.Sum, name="named")
    graph = traced(reduce, tf.TensorSpec((None, 4))).graph
    for read in (read_func_graph(graph), read_graph_def(graph.as_graph_def(add_shapes=True)),
                 read_graph_def(graph.as_graph_def())):
        region, = analyze(read).regions
        assert region.unplanned == ((0, "named", "its shape is not static"),)


def test_other_operations_are_listed():
    @tf.function
    def reduce(x):
        return (hvd.allgather(x, name="g"), hvd.broadcast(x, 0, name="b"), hvd.size_op(),
                hvd.reducescatter(x, name="r", op=hvd.Sum),
                hvd.grouped_allreduce([x, x], op=hvd.Sum))
    region, = analyze(read_func_graph(traced(reduce).graph)).regions
    assert region.plan is None
    assert sorted(reason.split()[-1] for _, _, reason in region.unplanned) == [
        "HorovodAllgather", "HorovodBroadcast", "HorovodGroupedAllreduce", "HorovodReducescatter"]


def test_a_branch_that_is_decided_at_run_time():
    @tf.function(autograph=False)
    def reduce(x):
        x = hvd.allreduce(x, op=hvd.Sum, name="first")
        return tf.cond(tf.reduce_sum(x) > 0, lambda: hvd.allreduce(x, op=hvd.Sum, name="then"),
                       lambda: x)
    message = traced(reduce).graph.as_graph_def(add_shapes=True)
    for graph in (read_func_graph(traced(reduce).graph), read_graph_def(message)):
        main, then = analyze(graph).regions
        assert [slot.name for slot in main.plan.slots] == ["first"]
        assert (then.name, [slot.name.split("/")[-1] for slot in then.plan.slots]) == (
            "cond/then", ["then"])


def test_a_loop():
    @tf.function(autograph=False)
    def reduce(x):
        return tf.while_loop(lambda x: tf.reduce_sum(x) < 9,
                             lambda x: [hvd.allreduce(x, op=hvd.Sum, name="each")], [x])
    main, body = analyze(read_func_graph(traced(reduce).graph)).regions
    assert main.plan is None
    assert (body.name, [slot.name for slot in body.plan.slots]) == ("while/body", ["while/each"])


def test_bodies_nest():
    @tf.function(autograph=False)
    def reduce(x):
        def body(x):
            x = hvd.allreduce(x, op=hvd.Sum, name="each")
            return [tf.cond(tf.reduce_sum(x) > 0,
                            lambda: hvd._allreduce_cond(x, op=hvd.Sum, name="then"), lambda: x)]
        return tf.while_loop(lambda x: tf.reduce_sum(x) < 9, body, [x])
    graph = traced(reduce).graph
    for read in (read_func_graph(graph), read_graph_def(graph.as_graph_def(add_shapes=True))):
        regions = analyze(read).regions
        planned = {region.name: [slot.name.split("/")[-1] for slot in region.plan.slots]
                   for region in regions if region.plan}
        assert planned == {"while/body": ["each"], "while/body/while/cond/then": ["then"]}


def nested():
    @tf.function
    def inner(x, y):
        return hvd.allreduce(x, op=hvd.Sum, name="x"), hvd.allreduce(y, op=hvd.Sum, name="y")

    @tf.function
    def outer(x):
        one, two = inner(x, tf.sin(x))
        three, _ = inner(tf.cos(x), x)
        return one, hvd.allreduce(two, op=hvd.Sum, name="last"), three
    return traced(outer).graph


def test_nested_functions_are_written_in_place():
    graph = nested()
    for read in (read_func_graph(graph), read_graph_def(
            graph.as_graph_def(add_shapes=True), [tensor.name for tensor in graph.outputs])):
        analysis = analyze(read)
        slots = analysis.regions[0].plan.slots
        after = {slot.name: [slots[k].name for k in slot.after] for slot in slots}
        # Nobody reads what y becomes in the second call.
        assert after == {"PartitionedCall/x_1": [], "PartitionedCall/y_1": [],
                         "PartitionedCall_1/x_1": [], "last": ["PartitionedCall/y_1"]}
        (name, _), = analysis.concurrent_calls
        assert name.startswith("__inference_inner")


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
    assert [one.name for one in region.unplanned] == ["c/i/b", "last"]


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


@pytest.mark.parametrize("tensor, taken", [
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
def test_constants(tmp_path, tensor, taken):
    (tmp_path / "graph.pbtxt").write_text(CONSTANTS % tensor)
    regions = analyze(read_graph_def(tmp_path / "graph.pbtxt", ["c"])).regions
    found = {region.name: [one.name for one in region.unplanned] for region in regions}
    assert found == ({"graph": [taken]} if taken else {
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
    assert [one.name for one in region.unplanned] == ["c/no"]


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
    message = traced(reduce).graph.as_graph_def()
    shape = message.node[0].attr["_output_shapes"].list.shape.add()
    for size in (2, 4):
        shape.dim.add().size = size
    region, = analyze(read_graph_def(message)).regions
    assert {one.name: one.reason for one in region.unplanned}["r"] == "its shape is not static"


def test_nested_functions_may_stay_closed():
    analysis = analyze(read_func_graph(nested()), inline_calls=False)
    assert [slot.name for slot in analysis.regions[0].plan.slots] == ["last"]
    assert len(analysis.concurrent_calls) == 1


def test_tensorflow_1_branches_with_constant_predicates():
    with tf.Graph().as_default() as graph:
        tf.compat.v1.disable_control_flow_v2()
        try:
            x = tf.compat.v1.placeholder(tf.float32, (4,))
            y = hvd._allreduce_cond(x, op=hvd.Sum, name="y")
            z = hvd._allreduce_cond(y, op=hvd.Sum, name="z")
        finally:
            tf.compat.v1.enable_control_flow_v2()
    assert "Switch" in {operation.type for operation in graph.get_operations()}
    plan = analyze(read_graph(graph, [z])).regions[0].plan
    assert [slot.name.split("/")[-1] for slot in plan.slots] == ["y", "z"]
    assert [slot.after for slot in plan.slots] == [(), (0,)]


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
        read_graph_def(nested().as_graph_def(), ["nowhere:0"])


def test_the_package_needs_no_tensorflow():
    subprocess.run([sys.executable, "-c", (
        "import sys, graph_analysis as g; import graph_analysis.table, graph_analysis.draw\n"
        "g.analyze(g.read_dict({'nodes': [{'name': 'a', 'op': 'HorovodAllreduce'}],"
        " 'fetches': ['a']}))\n"
        "assert not {'tensorflow', 'google.protobuf', 'matplotlib', 'horovod'} & set(sys.modules)"
    )], check=True)
