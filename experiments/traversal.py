"""How long does it take to read a training graph and to plan its collectives?

    python -m experiments.traversal
    python -m experiments.traversal --only ResNet50,VGG16 --repeats 9

One process: the graphs are traced as if there were two ranks, and never run."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from graph_analysis import Collective, Graph, Library, analyze, read_func_graph
from horovod_opt.arguments import positive
from horovod_opt.measuring import documents
from horovod_opt.measuring.present import show
from horovod_opt.report.traversal_section import section

# Nodes, edges and milliseconds of the traversal in Table 6.1 of Pumma's dissertation.
TABLE_6_1 = {
    "ResNet18": (1714, 2565, 32), "ResNet34": (2866, 4325, 86), "ResNet50": (3988, 6042, 159),
    "ResNet101": (7558, 11499, 594), "ResNet152": (11128, 16956, 1274), "AlexNet": (655, 893, 6),
    "GoogLeNet": (3499, 4970, 182), "Inception-v3": (6146, 9211, 382), "VGG16": (1091, 1479, 17),
}
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
BUCKET_BYTES = 2 * 1024 * 1024


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
    started = time.thread_time()
    result = function()
    return time.thread_time() - started, result


def measure_network(name: str, repeats: int) -> dict:
    """The shortest of `repeats`, as other processes can only add to it; each with a graph that was
    read anew, for the bodies of branches are read during the analysis and count as such."""
    import keras

    from experiments.training_graph import training_function
    from horovod_opt.bench.workers.models import NETWORKS
    function = training_function(NETWORKS[name]())
    reading, analysing = [], []
    for _ in range(repeats):
        duration, graph = seconds(lambda: read_func_graph(function.graph))
        reading.append(duration)
        duration, analysis = seconds(lambda graph=graph: analyze(
            graph, BUCKET_BYTES, inline_calls=False))
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
            "source": dict(zip(("nodes", "edges", "ms"), TABLE_6_1[name]))}


def measure_synthetic(nodes: int, repeats: int) -> dict:
    graph = synthetic(nodes)
    durations, analysis = [], None
    for _ in range(repeats):
        duration, analysis = seconds(lambda: analyze(graph, BUCKET_BYTES))
        durations.append(duration)
    return {"nodes": analysis.nodes, "edges": analysis.edges,
            "collectives": len(analysis.regions[0].plan.slots),
            "ms": 1e3 * min(durations), "us_per_node": 1e6 * min(durations) / analysis.nodes,
            "all_ms": [1e3 * duration for duration in durations]}


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.traversal", description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=_networks, default=list(TABLE_6_1),
                        help="networks, separated by commas (all of Table 6.1)")
    parser.add_argument("--repeats", type=positive, default=5,
                        help="how often each graph is read and analysed (%(default)s)")
    parser.add_argument("--output", type=Path, default=Path("benchmark"),
                        help="directory for traversal.json and traversal.png (%(default)s)")
    return parser.parse_args(argv)


def _networks(text: str) -> list[str]:
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in TABLE_6_1:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(TABLE_6_1)}")
    return names


def main() -> int:
    arguments = parse_arguments()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # only traced, so a GPU's memory stays free
    arguments.output.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    document = documents.new("traversal", ["python", "-m", "experiments.traversal"])
    document |= {"repeats": arguments.repeats, "networks": [], "synthetic": []}
    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                  TimeElapsedColumn(), console=console,
                  disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(SIZES) + len(arguments.only))
        for nodes in SIZES:
            progress.update(task, description=f"{nodes:,} nodes")
            document["synthetic"].append(measure_synthetic(nodes, arguments.repeats))
            progress.advance(task)
        for name in arguments.only:
            progress.update(task, description=f"tracing {name}")
            document["networks"].append(measure_network(name, arguments.repeats))
            progress.advance(task)
    result = arguments.output / "traversal.json"
    documents.save(result, document)
    console.print(f"Written: {result}")
    show(section(document), arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
