"""Reading a training graph and planning its collectives: how long it takes.

The networks of Table 6.1, traced in one process as if there were two ranks, and never run; and
synthetic training steps of up to 100,000 nodes. The graphs are those of today's TensorFlow and
Keras, with other numbers of nodes than the source's.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from study import Study

from graph_analysis import Collective, Graph, Library, analyze, read_func_graph
from horovod_lab.measuring import documents
from horovod_lab.measuring.literature import TABLE_6_1, TRAVERSAL_MS
from horovod_lab.measuring.present import show
from horovod_lab.report.graph_analysis_section import section
from horovod_lab.report.source import Beside
from horovod_opt.arguments import positive, some_of
from horovod_opt.tracing import two_ranks

BATCH = 32
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)


def synthetic(nodes: int) -> Graph:
    """A training step of `nodes` nodes: forward, backward, and for each layer a gradient, its
    allreduce and its update."""
    graph = Graph("step", Library())

    def add(name: str, op: str, *inputs: int) -> int:
        graph.names.append(name)
        graph.ops.append(op)
        graph.inputs.append(inputs)
        graph.controls.append(())
        return len(graph) - 1

    activation = add("images", "Placeholder")
    activations = []
    for layer in range(nodes // 8):
        variable = add(f"read{layer}", "ReadVariableOp")
        product = add(f"product{layer}", "MatMul", activation, variable)
        activation = add(f"activation{layer}", "Relu", product)
        activations.append((layer, activation, variable))
    signal = add("loss", "Mean", activation)
    for layer, activation, variable in reversed(activations):
        masked = add(f"masked{layer}", "ReluGrad", signal, activation)
        gradient = add(f"gradient{layer}", "MatMul", masked, activation)
        reduced = add(f"allreduce{layer}", "HorovodAllreduce", gradient)
        graph.collectives[reduced] = Collective((64, 64), "float32", 1, 1.0, 1.0)
        graph.control_outputs.append(add(f"update{layer}", "AssignSub", variable, reduced))
        signal = add(f"signal{layer}", "MatMul", masked, variable)
    graph.outputs.append((signal, 0))
    return graph


def seconds(function: Callable[[], object]) -> tuple[float, object]:
    """CPU time: on a busy machine the time until the result is there says little."""
    start = time.thread_time()
    result = function()
    return time.thread_time() - start, result


def training_function(model):
    """The FuncGraph of a training step with a distributed gradient and plain SGD, as it is on one
    of two ranks."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    variables = [variable.value for variable in model.trainable_variables]

    @tf.function(autograph=False)
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(
                labels, model(images, training=True)))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, variables)
        for variable, gradient in zip(variables, gradients):
            variable.assign_sub(0.1 * gradient)
        return loss

    with two_ranks():
        return step.get_concrete_function(
            tf.TensorSpec((BATCH, *model.input_shape[1:])), tf.TensorSpec((BATCH,), tf.int64))


def measure_network(name: str, repeats: int) -> dict:
    """The shortest of `repeats`, as other processes can only add to it; each with a graph that was
    read anew, for the bodies of branches are read during the analysis and count as such."""
    import keras

    from horovod_lab.bench.workers.models import NETWORKS

    function = training_function(NETWORKS[name]())
    reading, analysing = [], []
    for _ in range(repeats):
        duration, graph = seconds(lambda: read_func_graph(function.graph))
        reading.append(duration)
        duration, analysis = seconds(lambda graph=graph: analyze(graph, inline_calls=False))
        analysing.append(duration)
    plan = analysis.regions[0].plan
    keras.backend.clear_session()
    return {"network": name, "nodes": analysis.nodes, "edges": analysis.edges,
            "collectives": len(plan.slots), "buckets": len(plan.buckets), "hash": plan.hash,
            "unplanned": len(plan.unplanned),
            "read_ms": 1e3 * min(reading), "analyse_ms": 1e3 * min(analysing),
            "us_per_node": 1e6 * min(analysing) / analysis.nodes,
            "all_read_ms": [1e3 * duration for duration in reading],
            "all_analyse_ms": [1e3 * duration for duration in analysing],
            "source": {key: getattr(TABLE_6_1[name], key) for key in ("nodes", "edges", "ms")}}


def measure_synthetic(nodes: int, repeats: int) -> dict:
    graph = synthetic(nodes)
    durations, analysis = [], None
    for _ in range(repeats):
        duration, analysis = seconds(lambda: analyze(graph))
        durations.append(duration)
    return {"nodes": analysis.nodes, "edges": analysis.edges,
            "collectives": len(analysis.regions[0].plan.slots),
            "ms": 1e3 * min(durations), "us_per_node": 1e6 * min(durations) / analysis.nodes,
            "all_ms": [1e3 * duration for duration in durations]}


class Traversals:
    passes_on = ""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--only", type=some_of(TABLE_6_1), default=list(TABLE_6_1),
                            metavar="NAMES",
                            help="networks, separated by commas (all of Table 6.1)")
        parser.add_argument("--repeats", type=positive, default=5, metavar="N",
                            help="how often each graph is read and analysed (%(default)s)")

    def run(self, options: argparse.Namespace, further: Sequence[str], folder: Path) -> int:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # only traced: a GPU stays free
        console = Console(stderr=True)
        document = documents.new("traversal", ["python", "experiments/graph_analysis_cost.py"])
        document |= {"repeats": options.repeats, "networks": [], "synthetic": []}
        start = time.monotonic()
        with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                      TimeElapsedColumn(), console=console,
                      disable=not console.is_terminal) as progress:
            task = progress.add_task("", total=len(SIZES) + len(options.only))
            for nodes in SIZES:
                progress.update(task, description=f"{nodes:,} nodes")
                document["synthetic"].append(measure_synthetic(nodes, options.repeats))
                progress.advance(task)
            for name in options.only:
                progress.update(task, description=f"tracing {name}")
                document["networks"].append(measure_network(name, options.repeats))
                progress.advance(task)
        document["seconds"] = round(time.monotonic() - start, 1)
        documents.save(folder / "traversal.json", document)
        console.print(f"Written: {folder / 'traversal.json'}")
        show(section(document), folder)
        return 0


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    return [Beside(TRAVERSAL_MS[row["network"]], row["analyse_ms"], f"{row['nodes']:,} nodes")
            for document in documents for row in document["networks"]]


STUDY = Study(
    name="graph_analysis_cost", text=__doc__, repeats=("Table 6.1, p. 139",),
    measurement=Traversals(),
    compare=compare, short=True)

if __name__ == "__main__":
    sys.exit(STUDY.main())
