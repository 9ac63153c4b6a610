"""TensorFlow's graphs reach the planner before they run, whatever way they are built."""

from __future__ import annotations

import gc
import json

import pytest

tf = pytest.importorskip("tensorflow")
hvd = pytest.importorskip("horovod.tensorflow")

from tensorflow.python.client import session
from tensorflow.python.eager.polymorphic_function import atomic_function

from horovod_opt.planning import gradient_shapes
from horovod_opt.planning import tensorflow_hooks as capturing
from horovod_opt.planning.plan_folder import read_region
from horovod_opt.planning.tensorflow_hooks import KEY, PLANNED_OP, Capture
from horovod_opt.tracing import two_ranks


class Recorder:
    """Stands for the native side: keeps each plan as its lines, by kind."""

    def __init__(self):
        self.texts: list[str] = []
        self.removed: list[str] = []
        self.plans: list[dict[str, list[list[str]]]] = []
        self.rejected: list[tuple[str, str]] = []

    def add(self, text: str) -> None:
        self.texts.append(text)
        lines = [line.split("\t") for line in text.splitlines()]
        kinds = ("plan", "slot", "bucket")
        self.plans.append({k: [line[1:] for line in lines if line[0] == k] for k in kinds})

    def remove(self, text: str) -> None:
        self.removed.append(text)

    def is_first_rank(self) -> bool:
        return True

    def reject(self, plan: str, reason: str) -> None:
        self.rejected.append((plan, reason))

    @property
    def hashes(self) -> list[str]:
        return [plan["plan"][0][0] for plan in self.plans]

    @property
    def names(self) -> list[list[str]]:
        """The last part of each tensor's name, by plan."""
        return [sorted(slot[-1].split("/")[-1] for slot in plan["slot"]) for plan in self.plans]

    @property
    def keys(self) -> list[int]:
        return [int(slot[0]) for plan in self.plans for slot in plan["slot"]]


@pytest.fixture
def planner(monkeypatch):
    """A recorder that TensorFlow shows its graphs to, during one test."""
    monkeypatch.setattr(atomic_function, "from_func_graph", atomic_function.from_func_graph)
    for name in ("_extend_graph", "_do_run"):
        monkeypatch.setattr(session.BaseSession, name, getattr(session.BaseSession, name))
    recorder = Recorder()
    recorder.capture = Capture(recorder)
    capturing.install(recorder.capture)
    with two_ranks():
        yield recorder


def reduce(x, name: str):
    return hvd.allreduce(x, op=hvd.Sum, name=name)


def trace(function, *shape: int):
    return tf.function(function, autograph=False).get_concrete_function(tf.TensorSpec(shape))


def test_a_function_is_planned_before_it_runs(planner):
    trace(lambda x: reduce(x, "a") + reduce(x, "b"), 4)
    assert planner.names == [["a", "b"]]
    assert planner.keys == [1, 2]
    assert [slot[1] for slot in planner.plans[0]["slot"]] == ["16", "16"]
    assert planner.plans[0]["bucket"] == [["0,1"]]


def test_the_key_is_in_the_function_that_tensorflow_runs(planner):
    function = trace(lambda x: reduce(x, "a"), 4)
    node, = (node for node in function.function_def.node_def if node.op == PLANNED_OP)
    assert node.attr[KEY].i == planner.keys[0]


def test_a_retrace_with_the_same_collectives_has_the_same_plan(planner):
    function = tf.function(lambda x: reduce(tf.reduce_sum(x), "a"), autograph=False)
    for rows in (4, 3):
        function.get_concrete_function(tf.TensorSpec((rows,)))
    assert len(set(planner.hashes)) == 1
    assert planner.keys == [1, 2]


def test_a_retrace_with_other_collectives_has_another_plan(planner):
    function = tf.function(lambda x: reduce(x, "a"), autograph=False)
    for rows in (4, 3):
        function.get_concrete_function(tf.TensorSpec((rows,)))
    assert len(set(planner.hashes)) == 2


def test_gradients_are_planned_through_their_branches(planner):
    weights = [tf.Variable(tf.ones([4, 4])) for _ in range(3)]

    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(y @ weight)
        return hvd.DistributedGradientTape(tape).gradient(y, weights)

    trace(step, 2, 4)
    assert [len(plan["slot"]) for plan in planner.plans] == [3]
    assert len(set(planner.keys)) == 3


@pytest.mark.parametrize("make, axes", [
    (lambda layers: layers.Dense(3), 3),
    (lambda layers: layers.Dense(3), 4),
    (lambda layers: layers.EinsumDense("abc,cd->abd", output_shape=(None, 3), bias_axes="d"), 3),
    (lambda layers: layers.Conv1D(3, 2), 3),
    (lambda layers: layers.GRU(3), 3),
    (lambda layers: layers.Embedding(9, 3), 2),
], ids=["dense", "dense of 4 axes", "einsum", "convolution", "recurrent", "embedding"])
def test_gradients_are_planned_where_the_number_of_samples_is_unknown(planner, capsys, make, axes):
    """As in Keras' fit(): the graph then knows less of some gradients than their variables."""
    keras = pytest.importorskip("keras")
    layer = make(keras.layers)
    layer.build((None, 5, 4, 4)[:axes])
    weights = [weight.value for weight in layer.trainable_weights]

    def step(x):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(layer(x) ** 2)
        return hvd.DistributedGradientTape(tape, sparse_as_dense=True).gradient(y, weights)

    trace(step, None, *(5, 4, 4)[:axes - 1])
    assert sum(len(plan["slot"]) for plan in planner.plans) == len(weights) > 0
    assert "negotiated" not in capsys.readouterr().err


def test_a_gradient_of_another_shape_than_its_variable_keeps_it(planner):
    gradients = [tf.ones([2, 2]), None, tf.IndexedSlices(tf.ones([1, 2]), [0])]
    variables = [tf.Variable(tf.ones([3, 2])), tf.Variable(1.0), tf.Variable(tf.ones([3, 2]))]
    assert gradient_shapes.with_shapes(gradients, variables) == gradients
    assert gradient_shapes.with_shapes(gradients, None) is gradients


def test_a_nested_function_has_a_plan_of_its_own(planner):
    inner = tf.function(lambda x: reduce(x, "inner"), autograph=False)
    trace(lambda x: reduce(inner(x), "outer"), 4)
    assert planner.names == [["inner"], ["outer"]]
    assert planner.rejected == []


def test_a_function_called_from_two_places_at_once_is_not_planned(planner):
    inner = tf.function(lambda x: reduce(x, "inner"), autograph=False)
    trace(lambda x: inner(x) + inner(2.0 * x), 4)
    (plan, reason), = set(planner.rejected)
    assert plan == planner.hashes[0]
    assert "inner" in reason or "inference" in reason


def test_a_loop_body_has_a_plan_of_its_own(planner):
    def steps(x):
        return tf.while_loop(lambda i, _: i < 3,
                             lambda i, x: (i + 1, reduce(x, "body")), (0, reduce(x, "before")))[1]

    trace(steps, 4)
    assert sorted(planner.names) == [["before"], ["body"]]


def test_a_function_without_collectives_is_not_looked_at(planner, monkeypatch):
    monkeypatch.setattr(capturing.graph_analysis, "read_func_graph", None)
    assert trace(lambda x: 2.0 * x, 4)(tf.ones(4)).numpy().tolist() == [2.0] * 4


def test_what_cannot_be_planned_is_said_once(planner, capsys):
    for _ in range(2):
        trace(lambda x: hvd.alltoall(x, name="g")[0] + reduce(x, "a"), 4)
    assert capsys.readouterr().err.count("HorovodAlltoall is never planned") == 1
    assert planner.names == [["a"]] * 2


def test_of_what_recurs_nothing_is_said(planner, capsys):
    trace(lambda x: hvd.allgather(x, name="g") + reduce(x, "a"), 4)
    assert "HorovodAllgather" not in capsys.readouterr().err


def test_a_graph_that_cannot_be_read_does_not_stop_training(planner, monkeypatch, capsys):
    def fail(graph):
        raise ValueError("no such graph")

    monkeypatch.setattr(capturing.graph_analysis, "read_func_graph", fail)
    trace(lambda x: reduce(x, "a"), 4)
    assert "stays negotiated: its graph cannot be read: ValueError" in capsys.readouterr().err


def test_the_threshold_of_upstream(planner, monkeypatch):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "16")
    trace(lambda x: reduce(x, "a") + reduce(x, "b"), 4)
    assert planner.plans[0]["bucket"] == [["0"], ["1"]]


def test_each_fetch_of_a_session_is_planned_once(planner):
    with tf.Graph().as_default(), tf.compat.v1.Session() as running:
        x = tf.compat.v1.placeholder(tf.float32, [4])
        a, b = tf.identity(reduce(x, "a")), tf.identity(reduce(x, "b"))
        # The kernels need Horovod to run; that they are reached shows that the plan was first.
        for fetches in ([a, b], [b, a], [a], [a, b]):
            with pytest.raises(tf.errors.FailedPreconditionError, match="not been initialized"):
                running.run(fetches, {x: [1.0] * 4})
    assert planner.names == [["a", "b"], ["a"]]


def test_a_function_that_is_gone_takes_its_plan_along(planner):
    function = trace(lambda x: reduce(x, "a"), 4)
    traced = trace(lambda x: reduce(x, "b"), 4)
    assert planner.names == [["a"], ["b"]]
    del traced
    gc.collect()
    assert planner.removed == planner.texts[1:]
    assert function.name
    capture = planner.capture
    assert [len(capture._functions), len(capture._steps)] == [1, 1]


def test_operations_that_are_added_later_have_keys(planner):
    with tf.Graph().as_default(), tf.compat.v1.Session() as running:
        x = tf.compat.v1.placeholder(tf.float32, [1])
        for name in ("a", "b"):
            with pytest.raises(tf.errors.FailedPreconditionError):
                running.run(reduce(x, name), {x: [1.0]})
    assert planner.keys == [1, 2]


def test_regions_are_written_to_a_folder(planner, tmp_path):
    capturing.install(Capture(planner, str(tmp_path)))
    trace(lambda x: reduce(x, "a"), 4)
    file, = tmp_path.glob("*.json")
    assert read_region(file).plan.hash == planner.hashes[-1]
    assert json.loads(file.read_text())["reason"] == ""


class Stopped(Exception):
    """Where a script would wait for its end."""


@pytest.fixture
def stopping(planner, monkeypatch):
    """Instead of a step there is an exception."""
    def stop():
        raise Stopped

    call_flat = atomic_function.AtomicFunction.call_flat
    monkeypatch.setattr(atomic_function.AtomicFunction, "call_flat", call_flat)
    capturing.install(Capture(planner, before_step=stop))
    return planner


def test_a_script_stops_where_a_planned_function_begins(stopping):
    inner = tf.function(lambda x: reduce(x, "inner"), autograph=False)
    step = tf.function(lambda x: 2.0 * inner(x), autograph=False)
    with pytest.raises(Stopped):
        step(tf.ones([4]))
    assert stopping.names == [["inner"]]


def test_a_gradient_outside_of_the_function_is_a_step_too(stopping):
    weight = tf.Variable(tf.ones([4]))
    step = tf.function(lambda x: reduce(x * weight, "a"), autograph=False)
    with pytest.raises(Stopped), tf.GradientTape():
        step(tf.ones([4]))


def test_a_script_stops_where_a_planned_run_begins(stopping):
    with tf.Graph().as_default(), tf.compat.v1.Session() as running:
        x = tf.compat.v1.placeholder(tf.float32, [4])
        y = tf.identity(reduce(x, "a"))
        assert running.run(2.0 * x, {x: [1.0] * 4}).tolist() == [2.0] * 4
        with pytest.raises(Stopped):
            running.run(y, {x: [1.0] * 4})
    assert stopping.names[-1] == ["a"]


def test_what_is_not_planned_runs(stopping):
    """Other functions, and those with collectives that are negotiated."""
    trace(lambda x: reduce(x, "a"), 4)  # traced, not run
    assert tf.function(lambda x: 2.0 * x)(tf.ones([2])).numpy().tolist() == [2.0] * 2
    gather = tf.function(lambda x: hvd.allgather(x, name="g"), autograph=False)
    with pytest.raises(tf.errors.FailedPreconditionError, match="not been initialized"):
        gather(tf.ones([2]))


def test_a_constant_is_planned_as_well(planner):
    """TensorFlow's optimizer evaluates no collective, so that it runs in each step."""
    trace(lambda x: reduce(x, "a") + reduce(tf.ones([4]) * 2.0, "constant"), 4)
    assert sorted(name for bucket in planner.names for name in bucket) == ["a", "constant"]
