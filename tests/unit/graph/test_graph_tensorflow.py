"""Reading TensorFlow's graphs in memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

tf = pytest.importorskip("tensorflow")
hvd = pytest.importorskip("horovod.tensorflow")

from traced_graphs import nested_graph, trace, training_step

from graph_analysis import analyze, read_func_graph, read_graph, read_graph_def
from horovod_opt.tracing import two_ranks

ELASTIC = {"HorovodSize": 2, "HorovodProcessSetIncluded": 1}


@pytest.fixture(autouse=True)
def _two_ranks():
    with two_ranks():
        yield


def buckets(analysis) -> list[list[tuple]]:
    return [[(slot.shape, slot.dtype, slot.reduce_op) for slot in bucket.slots]
            for bucket in analysis.regions[0].plan.buckets]


def test_a_training_step():
    step = training_step()
    graph = read_func_graph(trace(step).graph)
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
    first, second = (analyze(read_func_graph(trace(step, tf.TensorSpec((n, 4))).graph))
                     for n in (2, 3))
    assert first.regions[0].plan.hash == second.regions[0].plan.hash


def test_a_tf_graph_with_fetches_gives_the_same_plan_as_the_function():
    step = training_step()
    concrete = trace(step)
    plan = analyze(read_func_graph(concrete.graph)).regions[0].plan
    updates = concrete.graph.control_outputs
    graph = read_graph(concrete.graph, [concrete.outputs[0], *updates])
    assert analyze(graph).regions[0].plan.hash == plan.hash
    only = read_graph(concrete.graph, [
        next(update for update in updates if update.type == "AssignSubVariableOp")])
    assert len(analyze(only).regions[0].plan.slots) == 1


def test_bodies_may_be_graphs_or_function_defs_and_are_read_once_and_only_if_taken():
    step = training_step(compression=hvd.Compression.fp16)
    graph = trace(step).graph
    messages = {function.signature.name: function
                for function in graph.as_graph_def().library.function}
    names = []

    def bodies(name: str):
        names.append(name)
        return messages.get(name)
    plan = analyze(read_func_graph(graph, bodies)).regions[0].plan
    assert plan.hash == analyze(read_func_graph(graph)).regions[0].plan.hash
    assert {slot.dtype for slot in plan.slots} == {"float16"}
    assert len(names) == len(set(names))
    assert not [name for name in names if "cond_false" in name]
    assert analyze(read_func_graph(graph, lambda name: None)).regions[0].plan is None


def test_the_predicate_of_elastic_jobs(monkeypatch):
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    step = training_step()
    graph = read_func_graph(trace(step).graph)
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
    slot, = analyze(read_func_graph(trace(reduce).graph)).regions[0].plan.slots
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
    message = trace(reduce).graph.as_graph_def(add_shapes=True)
    node, = [node for node in message.node if node.op == "HorovodAllreduce"]
    node.attr["opt_key"].i = 1 << 40
    slot, = analyze(read_graph_def(message)).regions[0].plan.slots
    assert slot.key == 1 << 40


def test_without_a_static_shape_a_tensor_stays_negotiated():
    @tf.function
    def reduce(x):
        return hvd.allreduce(x, op=hvd.Sum, name="named")
    graph = trace(reduce, tf.TensorSpec((None, 4))).graph
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
    region, = analyze(read_func_graph(trace(reduce).graph)).regions
    assert region.plan is None
    assert sorted(reason for _, _, reason in region.unplanned) == [
        f"{op} has a plan of its own once it recurs"
        for op in ("HorovodAllgather", "HorovodBroadcast", "HorovodGroupedAllreduce",
                   "HorovodReducescatter")]


def test_a_branch_that_is_decided_at_run_time():
    @tf.function(autograph=False)
    def reduce(x):
        x = hvd.allreduce(x, op=hvd.Sum, name="first")
        return tf.cond(tf.reduce_sum(x) > 0, lambda: hvd.allreduce(x, op=hvd.Sum, name="then"),
                       lambda: x)
    message = trace(reduce).graph.as_graph_def(add_shapes=True)
    for graph in (read_func_graph(trace(reduce).graph), read_graph_def(message)):
        main, branch = analyze(graph).regions
        assert [slot.name for slot in main.plan.slots] == ["first"]
        assert (branch.name, [slot.name.split("/")[-1] for slot in branch.plan.slots]) == (
            "cond/then", ["then"])


def test_a_loop():
    @tf.function(autograph=False)
    def reduce(x):
        return tf.while_loop(lambda x: tf.reduce_sum(x) < 9,
                             lambda x: [hvd.allreduce(x, op=hvd.Sum, name="each")], [x])
    main, body = analyze(read_func_graph(trace(reduce).graph)).regions
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
    graph = trace(reduce).graph
    for read in (read_func_graph(graph), read_graph_def(graph.as_graph_def(add_shapes=True))):
        regions = analyze(read).regions
        planned = {region.name: [slot.name.split("/")[-1] for slot in region.plan.slots]
                   for region in regions if region.plan}
        assert planned == {"while/body": ["each"], "while/body/while/cond/then": ["then"]}


def test_nested_functions_are_written_in_place():
    graph = nested_graph()
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


def test_nested_functions_may_stay_closed():
    analysis = analyze(read_func_graph(nested_graph()), inline_calls=False)
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


def test_the_package_needs_no_tensorflow():
    subprocess.run([sys.executable, "-c", (
        "import sys, graph_analysis as g; import graph_analysis.plan_views, graph_analysis.draw\n"
        "g.analyze(g.read_dict({'nodes': [{'name': 'a', 'op': 'HorovodAllreduce'}],"
        " 'fetches': ['a']}))\n"
        "assert not {'tensorflow', 'google.protobuf', 'matplotlib', 'horovod'} & set(sys.modules)"
    )], check=True)
